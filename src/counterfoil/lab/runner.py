"""Runs one scenario: a stub server, an agent in a process of its own, a real kill -9, a count.

A kill waits for a fact (the stub has the call, the journal holds the timer), then for the
stated seconds. The agent is started by the same command each time: that it takes the run up
again is part of what is tested.
"""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass

import counterfoil
from counterfoil import Journal
from counterfoil.errors import RunNotFoundError
from counterfoil.lab.agent import Agent, LabError
from counterfoil.lab.rows import Ending, Row
from counterfoil.lab.scenarios import Moment, Scenario
from counterfoil.testing.stubs import Kind, Plan, StubModel

REPORT = "12 C, rain"
FACT_SECONDS = 30
END_SECONDS = 60.0
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the agent pauses, and how long into a held call the kill comes, in seconds."""

    pause: float = 1.0
    into_call: float = 1.0


def run_scenario(scenario: Scenario, store: str, pace: Pace | None = None) -> Row:
    """Run the agent, kill it if the scenario says so, run it again, and count.

    Raises LabError when the agent ends before its kill, or does not end, or records nothing.
    """
    run_id = asyncio.run(_free_run_id(store, scenario.title))
    plan: Plan = {**scenario.plan, "tool_results": {"get_weather": {"report": REPORT}}}
    with StubModel(**plan) as stub:
        bench = _Bench(scenario, run_id, store, stub, pace or Pace())
        if scenario.kill:
            bench.run_until_killed(scenario.kill)
        said = bench.run_to_the_end()
        return Row(
            scenario=scenario,
            run_id=run_id,
            store=store,
            calls=stub.log,
            ending=asyncio.run(_ending(store, run_id, said)),
            said=said,
        )


@dataclass(frozen=True, slots=True)
class _Bench:
    """One scenario, set up."""

    scenario: Scenario
    run_id: str
    store: str
    stub: StubModel
    pace: Pace

    def run_until_killed(self, moment: Moment) -> None:
        with self._agent("1") as agent:
            if moment is Moment.IN_PAUSE:
                asyncio.run(_timer_is_set(self.store, self.run_id, agent))
            else:
                self._until_called("model" if moment is Moment.IN_MODEL else "tool", agent)
                agent.must_live(self.pace.into_call)
            agent.kill()
        self.stub.wait_for(lambda log: all(call.delivered is not None for call in log))

    def run_to_the_end(self) -> str:
        number = "2" if self.scenario.kill else "1"
        with self._agent(number, **self.scenario.second_environment) as agent:
            agent.end(END_SECONDS)
            return agent.said()

    def _agent(self, process: str, **more: str) -> Agent:
        environment = {
            "LAB_STUB": self.stub.url,
            "LAB_PAUSE": str(self.pace.pause),
            "LAB_PROCESS": process,
            **self.scenario.environment,
            **more,
        }
        return Agent(self.scenario.mode, run_id=self.run_id, store=self.store, environment=environment)

    def _until_called(self, kind: Kind, agent: Agent) -> None:
        """Return as soon as the stub has a call of this kind."""
        for _ in range(FACT_SECONDS):
            with contextlib.suppress(TimeoutError):
                self.stub.wait_for(lambda log: any(c.kind == kind for c in log), timeout=1.0)
                return
            agent.must_live()
        raise LabError(f"no {kind} call in {FACT_SECONDS} s; the agent said:\n{agent.said()}")


async def _timer_is_set(store: str, run_id: str, agent: Agent) -> None:
    """Return as soon as the journal holds the run's timer."""
    async with counterfoil.open(store) as journal:
        for _ in range(int(FACT_SECONDS / LOOK_SECONDS)):
            if "timer_set" in await _event_types(journal, run_id):
                return
            agent.must_live()
            await asyncio.sleep(LOOK_SECONDS)
    raise LabError(f"no timer in {FACT_SECONDS} s; the agent said:\n{agent.said()}")


async def _event_types(journal: Journal, run_id: str) -> set[str]:
    try:
        return {event.type for event in await journal.events(run_id)}
    except RunNotFoundError:
        return set()


async def _ending(store: str, run_id: str, said: str) -> Ending:
    async with counterfoil.open(store) as journal:
        try:
            run = await journal.get(run_id)
        except RunNotFoundError:
            raise LabError(f"the agent recorded no run; it said:\n{said}") from None
        return Ending(run.state, run.reason, await journal.events(run_id))


async def _free_run_id(store: str, wanted: str) -> str:
    """Return the id wanted, or with the next number: a store given by hand may hold it."""
    run_id, numbers = wanted, itertools.count(2)
    async with counterfoil.open(store) as journal:
        while await _event_types(journal, run_id):
            run_id = f"{wanted}-{next(numbers)}"
    return run_id
