"""Both spellings of a call are one mechanism: the same keys, the same records, the same result."""

import functools
import inspect

import pytest

import counterfoil
from counterfoil import Context, NotStorableError, RunPausedError, bind, current, in_run, model, step, workflow
from counterfoil.errors import NestedStepError, NotInRunError, SyncStepCalledError

pytestmark = pytest.mark.anyio


@step
async def weather(city: str, *, unit: str = "C") -> str:
    return f"{city} {unit}"


@model(worst_cost_usd=0.02)
async def ask(question: str, hint: str | None = None) -> str:
    return f"{question} {hint}"


@step(name="plain one")
def plain(x: int = 3) -> int:
    return x


class Agent:
    def __init__(self, name: str) -> None:
        self.name = name

    @step
    async def tool(self, n: int) -> str:
        return f"{self.name} {n}"

    async def undeclared(self, n: int) -> int:
        return n

    @classmethod
    async def made(cls, n: int) -> str:
        return f"{cls.__name__} {n}"

    @staticmethod
    async def free(n: int) -> int:
        return n


async def helper(city: str) -> str:
    """Knows no context: finds it."""
    return await current().step(weather, city)


PAIRS = {
    "step": (lambda ctx: ctx.step(weather, "Oslo"), lambda _: weather("Oslo")),
    "step by keyword": (lambda ctx: ctx.step(weather, "Oslo"), lambda _: weather(city="Oslo", unit="C")),
    "step bound": (lambda ctx: ctx.step(bind(weather, city="Oslo")), lambda _: weather("Oslo")),
    "step in a helper": (lambda ctx: ctx.step(weather, "Oslo"), lambda _: helper("Oslo")),
    "step by current": (lambda ctx: ctx.step(weather, "Oslo"), lambda _: current().step(weather, "Oslo")),
    "step by a partial": (
        lambda ctx: ctx.step(functools.partial(weather, unit="F"), "Oslo"), lambda _: weather("Oslo", unit="F"),
    ),
    "model": (lambda ctx: ctx.model(ask, "why", "x"), lambda _: ask("why", hint="x")),
    "model by step": (lambda ctx: ctx.step(ask, "why"), lambda _: ask("why")),
    "model bound": (lambda ctx: ctx.model(bind(ask, "why")), lambda _: ask("why", None)),
    "method": (lambda ctx: ctx.step(Agent("a").tool, 3), lambda _: Agent("a").tool(3)),
    "method of the class": (lambda ctx: ctx.step(Agent.tool, Agent("a"), 3), lambda _: Agent("a").tool(n=3)),
    "method bound": (lambda ctx: ctx.step(bind(Agent("a").tool, 3)), lambda _: Agent("a").tool(3)),
    "options": (lambda ctx: ctx.with_options().step(weather, "Oslo"), lambda _: weather("Oslo")),
}  # fmt: skip


@pytest.mark.parametrize(("through_context", "direct"), PAIRS.values(), ids=PAIRS)
async def test_both_spellings_give_the_same_record_and_result(journal, recorded, *, through_context, direct):
    @workflow
    async def spelled(ctx: Context, which: int) -> list[str]:
        del which
        return [await spellings[len(used)](ctx), await ctx.step(weather, "after")]

    used: list[int] = []
    spellings = [through_context, direct]
    one = await journal.run(spelled, 0, id="one")
    used.append(1)
    other = await journal.run(spelled, 0, id="other")
    assert (one, recorded(await journal.events("one"))) == (other, recorded(await journal.events("other")))


async def test_a_plain_function_gives_the_same_record_bound_or_not(journal, recorded):
    @workflow
    async def bound(ctx: Context, is_bound: bool) -> int:
        return await (ctx.step(bind(plain, 3)) if is_bound else ctx.step(plain))

    for flag in (True, False):
        await journal.run(bound, flag, id=str(flag))
    one, other = [recorded(await journal.events(str(flag)))[1:] for flag in (True, False)]
    assert one == other


async def test_a_recorded_call_holds_its_arguments_by_name_with_defaults(journal):
    @workflow
    async def named(ctx: Context) -> str:
        return await weather("Oslo")

    await journal.run(named, id="r")
    body = (await journal.events("r"))[2].body
    assert (body.kind, body.name, bytes(body.input), body.opaque) == (
        "tool",
        "weather",
        b'{"city":"Oslo","unit":"C"}',
        {},
    )


@pytest.mark.parametrize(
    ("call", "input_", "opaque"),
    [
        (lambda ctx: ctx.step(Agent("a").tool, 3), b'{"n":3}', {"self": "Agent"}),
        (lambda ctx: ctx.step(Agent("a").undeclared, 3), b'{"n":3}', {"self": "Agent"}),
        (lambda ctx: ctx.step(Agent.undeclared, Agent("a"), 3), b'{"n":3}', {"self": "Agent"}),
        (lambda ctx: ctx.step(Agent.free, 3), b'{"n":3}', {}),
        (lambda ctx: ctx.step(Agent("a").free, 3), b'{"n":3}', {}),
        (lambda ctx: ctx.step(functools.partial(Agent("a").tool, 3)), b'{"n":3}', {"self": "Agent"}),
    ],
    ids=["method", "undeclared", "by class", "static", "static by object", "partial"],
)
async def test_the_object_of_a_method_is_no_input_but_its_class_is_kept(journal, *, call, input_, opaque):
    @workflow
    async def methods(ctx: Context) -> object:
        return await call(ctx)

    await journal.run(methods, id="r")
    body = (await journal.events("r"))[2].body
    assert (bytes(body.input), body.opaque) == (input_, opaque)


async def test_a_class_method_gives_its_result(journal):
    @workflow
    async def classy(ctx: Context) -> str:
        return await ctx.step(Agent.made, 3)

    assert await journal.run(classy, id="r") == "Agent 3"


async def test_the_arguments_of_a_partial_are_input(journal):
    @workflow
    async def partly(ctx: Context) -> str:
        return await ctx.step(functools.partial(weather, "Oslo"), unit="K")

    await journal.run(partly, id="r")
    body = (await journal.events("r"))[2].body
    assert (body.name, bytes(body.input)) == ("weather", b'{"city":"Oslo","unit":"K"}')


# --- outside a run, and inside a step ---


async def test_outside_a_run_a_declared_function_is_the_plain_function():
    assert (await weather("Oslo"), await ask("why"), plain(4), await Agent("a").tool(1)) == (
        "Oslo C",
        "why None",
        4,
        "a 1",
    )


@pytest.mark.parametrize(("function", "is_async"), [(weather, True), (ask, True), (plain, False), (Agent.tool, True)])
def test_a_declared_function_is_still_a_function(function, is_async):
    assert inspect.isfunction(function)
    assert inspect.iscoroutinefunction(function) is is_async


def test_a_declared_function_keeps_name_doc_and_signature():
    assert (weather.__name__, str(inspect.signature(weather))) == ("weather", "(city: str, *, unit: str = 'C') -> str")


def test_outside_a_run_there_is_no_context():
    assert not in_run()
    with pytest.raises(NotInRunError) as caught:
        current()
    assert caught.value.hint


async def test_inside_a_run_there_is_one(journal):
    @workflow
    async def inside(ctx: Context) -> list[bool]:
        async def seen() -> bool:
            return in_run()

        return [in_run(), current() is ctx, await ctx.step(seen)]

    assert await journal.run(inside) == [True, True, False]


async def test_a_step_called_inside_a_step_is_part_of_it(journal, types_of):
    @workflow
    async def nested(ctx: Context) -> str:
        async def outer() -> str:
            return await weather("Oslo") + str(plain(5))

        return await ctx.step(outer)

    assert await journal.run(nested, id="r") == "Oslo C5"
    assert types_of(await journal.events("r"))[2:] == ["step_intended", "step_succeeded", "run_completed"]


@pytest.mark.parametrize(
    "inner",
    [
        lambda ctx: ctx.step(weather, "Oslo"),
        lambda ctx: ctx.model(ask, "why"),
        lambda ctx: ctx.sleep(1),
        lambda _: ask("why"),
        lambda _: helper("Oslo"),
    ],
    ids=["step", "model", "sleep", "model directly", "current"],
)
async def test_a_recorded_call_inside_a_step_is_refused(journal, types_of, inner):
    @workflow
    async def nested(ctx: Context) -> object:
        async def outer() -> object:
            return await inner(ctx)

        return await ctx.step(outer)

    with pytest.raises(RunPausedError) as caught:
        await journal.run(nested, id="r")
    assert isinstance(caught.value.__cause__, NestedStepError)
    assert types_of(await journal.events("r"))[2:] == ["step_intended", "step_failed", "run_paused"]


@pytest.mark.parametrize("read", ["now", "random", "uuid"])
async def test_a_read_inside_a_step_is_refused(journal, read):
    @workflow
    async def nested(ctx: Context) -> object:
        def outer() -> str:
            return str(getattr(ctx, read)())

        return await ctx.step(outer)

    with pytest.raises(RunPausedError) as caught:
        await journal.run(nested, id="r")
    assert isinstance(caught.value.__cause__, NestedStepError)


async def test_a_plain_declared_function_called_in_a_body_is_refused_and_not_run(journal, types_of):
    ran: list[int] = []

    @step
    def charge() -> None:
        ran.append(1)

    @workflow
    async def calls_it(ctx: Context) -> None:
        charge()

    with pytest.raises(RunPausedError) as caught:
        await journal.run(calls_it, id="r")
    assert isinstance(caught.value.__cause__, SyncStepCalledError)
    assert "await ctx.step(charge, ...)" in caught.value.facts["next"]
    assert (ran, types_of(await journal.events("r"))[2:]) == ([], ["run_paused"])


async def test_a_workflow_called_by_another_runs_in_the_same_run(journal, types_of):
    @workflow
    async def part(ctx: Context, city: str) -> str:
        return await weather(city)

    @workflow
    async def whole(ctx: Context) -> list[str]:
        return [await part(ctx, "Oslo"), await part(ctx, city="Rome")]

    assert await journal.run(whole, id="r") == ["Oslo C", "Rome C"]
    assert [event.step for event in await journal.events("r")] == [None, None, "0", "0", "1", "1", None]


async def test_an_argument_that_can_not_be_recorded_is_refused_before_anything_runs(journal, calls, types_of):
    send = calls.function("send", 1)

    @workflow
    async def unstorable(ctx: Context) -> str:
        try:
            await ctx.step(send, {"deep": [object()]})
        except NotStorableError as error:
            return f"{error.facts['path']} {error.facts['type']}"
        return "sent"

    assert await journal.run(unstorable, id="r") == "$.args[0].deep[0] object"
    assert (calls["send"], types_of(await journal.events("r"))[2:]) == (0, ["run_completed"])


async def test_a_run_called_by_the_wrong_name_is_told_so(journal):
    with pytest.raises(counterfoil.CounterfoilError, match="it is no workflow"):
        await journal.run(helper, "Oslo")
