"""Start, attach, resume and get are different verbs, and nothing is kept in the decorated object (FC-83)."""

import asyncio
import dataclasses

import pytest

from counterfoil import (
    Context,
    RunConflictError,
    RunFailedError,
    RunNotFoundError,
    RunPausedError,
    Secret,
    Status,
    bind,
    step,
    workflow,
)
from counterfoil.engine import definitions
from counterfoil.errors import IdInvalidError, InputInvalidError, StoreClosedError, WorkflowUnknownError

pytestmark = pytest.mark.anyio


@dataclasses.dataclass
class Order:
    id: int
    lines: list[str] = dataclasses.field(default_factory=list)


def counted(calls, *outcomes):
    once = calls.function("once", *outcomes)

    @workflow
    async def work(ctx: Context, question: str, depth: int = 3) -> object:
        return [question, depth, await ctx.step(once)]

    return work


async def test_the_id_of_a_run_that_ended_gives_its_recorded_result(desk, calls):
    work = counted(calls, 1, 2)
    results = []
    for _ in range(10):
        async with desk.open() as journal:
            results.append(await journal.run(work, "q", id="r"))
    assert results == [["q", 3, 1]] * 10
    assert calls == {"once": 1}


async def test_two_callers_at_once_get_one_run(journal, calls):
    work = counted(calls, 1, 2)
    results = await asyncio.gather(*(journal.run(work, "q", id="r") for _ in range(20)))
    assert results == [["q", 3, 1]] * 20
    assert calls == {"once": 1}


async def test_attaching_resuming_and_waiting_at_once_get_one_run(journal, calls):
    work = counted(calls, 1, 2)
    run = await journal.start(work, "q", id="r")
    results = await asyncio.gather(
        journal.run(work, "q", id="r"), journal.resume("r"), run.result(timeout=10), journal.resume("r", work)
    )
    assert results == [["q", 3, 1]] * 4
    assert calls == {"once": 1}


async def test_a_started_run_is_recorded_and_not_run(journal, calls):
    work = counted(calls, 1)
    run = await journal.start(work, "q", id="r")
    assert (run.id, run.workflow, run.state, run.reason, calls["once"]) == ("r", "work", Status.PENDING, None, 0)
    assert [event.type for event in await journal.events("r")] == ["run_started"]


async def test_a_started_run_is_started_once(journal, calls):
    work = counted(calls, 1)
    first, second = await journal.start(work, "q", id="r"), await journal.start(work, "q", id="r")
    assert (first.head, len(await journal.events("r"))) == (second.head, 1)


async def test_a_run_that_ended_is_not_started_again(journal, calls):
    work = counted(calls, 1)
    await journal.run(work, "q", id="r")
    run = await journal.start(work, "q", id="r")
    assert (run.state, await run.result(), calls["once"]) == (Status.COMPLETED, ["q", 3, 1], 1)


SAME_INPUT = [
    lambda work: (work, "q"),
    lambda work: (work, "q", 3),
    lambda work: (bind(work, "q"),),
    lambda work: (bind(work, question="q", depth=3),),
    lambda work: (bind(work, "q", depth=3),),
]


@pytest.mark.parametrize("spelled", SAME_INPUT, ids=range(5))
async def test_every_spelling_of_the_input_is_the_same_run(journal, calls, spelled):
    work = counted(calls, 1, 2)
    await journal.run(work, "q", id="r")
    assert await journal.run(*spelled(work), id="r") == ["q", 3, 1]
    assert bytes((await journal.events("r"))[0].body.input) == b'{"question":"q","depth":3}'


OTHER_INPUT = [("other",), ("q", 4), ("Q",), ("q ", 3)]


@pytest.mark.parametrize("args", OTHER_INPUT, ids=repr)
@pytest.mark.parametrize("verb", ["run", "start"])
async def test_another_input_is_a_conflict_and_changes_nothing(journal, calls, verb, *, args):
    work = counted(calls, 1)
    await journal.run(work, "q", id="r")
    before = (await journal.head("r"), await journal.events("r"))
    with pytest.raises(RunConflictError) as caught:
        await getattr(journal, verb)(work, *args, id="r")
    facts = caught.value.facts
    assert (facts["what"], facts["recorded"]) == ("input", '{"question":"q","depth":3}')
    assert ((await journal.head("r"), await journal.events("r")), calls["once"]) == (before, 1)


async def test_another_input_is_a_conflict_while_the_run_is_paused(journal, calls):
    work = counted(calls, ValueError("no"))
    with pytest.raises(RunPausedError):
        await journal.run(work, "q", id="r")
    with pytest.raises(RunConflictError):
        await journal.run(work, "other", id="r")
    assert (await journal.get("r")).state is Status.PAUSED


async def test_another_workflow_is_a_conflict(journal, calls):
    @workflow
    async def other(ctx: Context, question: str, depth: int = 3) -> None:
        """Takes the same input."""

    await journal.run(counted(calls, 1), "q", id="r")
    for attempt in (lambda: journal.run(other, "q", id="r"), lambda: journal.start(other, "q", id="r")):
        with pytest.raises(RunConflictError) as caught:
            await attempt()
        assert {key: caught.value.facts[key] for key in ("what", "recorded", "attempted")} == {
            "what": "workflow", "recorded": "work", "attempted": "other",
        }  # fmt: skip


async def test_resume_with_another_workflow_is_a_conflict(journal, calls):
    @workflow
    async def other(ctx: Context, question: str) -> None:
        """Not what was started."""

    await journal.start(counted(calls, 1), "q", id="r")
    with pytest.raises(RunConflictError):
        await journal.resume("r", other)
    assert [event.type for event in await journal.events("r")] == ["run_started"]


async def test_an_alias_is_the_same_workflow(desk, calls):
    async with desk.open() as journal:
        await journal.start(counted(calls, 1), "q", id="r")
    definitions._workflows.clear()

    @workflow(name="renamed", aliases=("work",))
    async def renamed(ctx: Context, question: str, depth: int = 3) -> str:
        return "by alias"

    async with desk.open() as journal:
        assert await journal.resume("r") == "by alias"
        assert await journal.run(renamed, "q", id="r") == "by alias"


async def test_a_workflow_that_is_not_loaded_is_named(journal, calls):
    await journal.start(counted(calls, 1), "q", id="r")
    definitions._workflows.clear()
    with pytest.raises(WorkflowUnknownError) as caught:
        await journal.resume("r")
    assert caught.value.facts == {"run": "r", "workflow": "work"}


async def test_a_result_can_be_read_where_the_workflow_is_not_loaded(journal, calls):
    await journal.run(counted(calls, 1), "q", id="r")
    definitions._workflows.clear()
    assert await journal.resume("r") == ["q", 3, 1]
    assert await (await journal.get("r")).result() == ["q", 3, 1]


async def test_runs_without_an_id_are_different_runs(journal, calls):
    work = counted(calls, 1, 2)
    assert [await journal.run(work, "q"), await journal.run(work, "q")] == [["q", 3, 1], ["q", 3, 2]]
    assert len(await journal.list()) == 2


async def test_nothing_of_a_run_is_kept_in_the_decorated_object(journal, calls):
    work = counted(calls, 1, 2, 3)
    before = dict(vars(work))
    await asyncio.gather(*(journal.run(work, "q", id=str(n)) for n in range(3)))
    assert dict(vars(work)) == before
    assert sorted(calls.elements()) == ["once"] * 3


async def test_a_failed_run_keeps_failing_and_a_new_one_needs_a_new_id(journal):
    outcomes = [LookupError("first"), None]

    @workflow
    async def fails_once(ctx: Context) -> str:
        if error := outcomes.pop(0):
            raise error
        return "fine"

    for _ in range(2):
        with pytest.raises(RunFailedError, match="LookupError: first"):
            await journal.run(fails_once, id="r")
    assert await journal.run(fails_once, id="s") == "fine"


# --- what is asked for wrongly ---


@pytest.mark.parametrize("id_", ["", " r", "r\n", "x" * 201])
async def test_an_id_that_can_not_be_used_is_refused(journal, calls, id_):
    with pytest.raises(IdInvalidError):
        await journal.run(counted(calls, 1), "q", id=id_)
    assert await journal.list() == []


@pytest.mark.parametrize("verb", ["get", "resume", "events", "verify", "head"])
async def test_an_id_that_nobody_has_is_not_found(journal, verb):
    with pytest.raises(RunNotFoundError) as caught:
        await getattr(journal, verb)("nobody")
    assert caught.value.facts["run"] == "nobody"


BAD_INPUT = [
    ("too few", ()),
    ("too many", ("q", 3, 4)),
    ("another type", (3,)),
    ("text for a number", ("q", "three")),
    ("text with our mark for a number", ("q", "$5")),
    ("nothing", (None,)),
    ("a list for text", (["$"],)),
]


@pytest.mark.parametrize("args", [args for _, args in BAD_INPUT], ids=[name for name, _ in BAD_INPUT])
async def test_an_input_that_does_not_fit_is_refused_before_anything_is_recorded(journal, calls, args):
    with pytest.raises(InputInvalidError) as caught:
        await journal.run(counted(calls, 1), *args, id="r")
    assert caught.value.facts["signature"] == "(question: str, depth: int = 3) -> object"
    assert await journal.list() == []


async def test_an_input_is_built_as_its_annotation_says_live_and_on_replay(desk, calls):
    fails = calls.function("fails", ValueError("no"), 1)
    seen: list[object] = []

    @workflow
    async def typed(ctx: Context, order: Order, more: list[Order], *, key: Secret, maybe: Order | None = None) -> int:
        seen.append((order, more, key, maybe))
        return await ctx.step(fails)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(bind(typed, Order(1, ["a"]), [Order(2)], key=Secret("KEY")), id="r")
        assert await journal.resume("r") == 1
        assert await journal.run(bind(typed, Order(1, ["a"]), [Order(2)], key=Secret("KEY")), id="r") == 1
    assert seen == [(Order(1, ["a"]), [Order(2)], Secret("KEY"), None)] * 2


async def test_plain_json_for_a_dataclass_is_the_same_input(journal):
    @workflow
    async def typed(ctx: Context, order: Order) -> list[object]:
        return [order.id, order.lines]

    await journal.run(typed, Order(1, ["a"]), id="r")
    assert await journal.run(bind(typed, order={"id": 1, "lines": ["a"]}), id="r") == [1, ["a"]]


async def test_a_dataclass_whose_parameter_has_no_type_is_refused(journal):
    @workflow
    async def untyped(ctx: Context, order) -> str:
        return type(order).__name__

    with pytest.raises(InputInvalidError, match="order"):
        await journal.run(untyped, Order(1), id="r")


async def test_a_closed_journal_says_so(desk, calls):
    journal = await desk.open()
    await journal.close()
    await journal.close()
    for attempt in (lambda: journal.run(counted(calls, 1), "q"), journal.list, lambda: journal.get("r")):
        with pytest.raises(StoreClosedError):
            await attempt()


async def test_a_journal_that_was_never_opened_says_so(desk, calls):
    with pytest.raises(StoreClosedError):
        await desk.open().run(counted(calls, 1), "q")


async def test_a_step_called_with_wrong_arguments_pauses_the_run_and_names_the_step(journal):
    @step
    async def two(a: int, b: int) -> int:
        return a + b

    @workflow
    async def wrong(ctx: Context) -> int:
        return await ctx.step(two, 1)  # type: ignore[call-arg] - the case under test

    with pytest.raises(RunPausedError) as paused:
        await journal.run(wrong)
    assert paused.value.reason == "input_invalid"
    assert paused.value.detail.startswith("the input does not fit two(a: int, b: int)")


async def test_runs_are_listed_by_state_workflow_and_tags(journal, calls):
    work = counted(calls, 1)
    for number in range(5):
        await journal.run(work, str(number), id=str(number), tags={"even": str(number % 2 == 0), "all": "x"})
    await journal.start(work, "p", id="p")
    listed = [
        await journal.list(tags={"even": "True"}),
        await journal.list(tags={"even": "True", "all": "y"}),
        await journal.list(states=[Status.PENDING]),
        await journal.list(workflow="other"),
        await journal.list(limit=2),
        await journal.list(limit=2, before=(await journal.list(limit=2))[-1].head.number),
    ]
    assert [[run.id for run in runs] for runs in listed] == [["4", "2", "0"], [], ["p"], [], ["p", "4"], ["3", "2"]]


@pytest.mark.parametrize("outcome", ["completes", "pauses"])
async def test_whoever_attaches_as_a_run_ends_gets_that_end(journal, calls, outcome):
    work = counted(calls, 1 if outcome == "completes" else ValueError("no"), 2)
    ended = await asyncio.gather(*(journal.run(work, "q", id="r") for _ in range(20)), return_exceptions=True)
    assert {repr(each) for each in ended} == {repr(ended[0])}
    assert calls == {"once": 1}


async def test_whoever_resumes_as_a_run_ends_gets_that_end(journal, calls):
    work = counted(calls, ValueError("no"), 2)
    with pytest.raises(RunPausedError):
        await journal.run(work, "q", id="r")
    assert await asyncio.gather(*(journal.resume("r") for _ in range(20))) == [["q", 3, 2]] * 20
    assert calls == {"once": 2}


async def test_a_run_that_ended_is_not_resumed_as_another_workflow(desk, calls):
    @workflow
    async def other(ctx: Context, question: str) -> Order:
        return Order(1)

    async with desk.open() as journal:
        await journal.run(counted(calls, 1), "q", id="r")
        with pytest.raises(RunConflictError):
            await journal.resume("r", other)
