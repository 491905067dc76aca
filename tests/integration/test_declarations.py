"""What can't work is refused where it is declared, and options never change what they are not given for."""

import decimal

import pytest

from counterfoil import Context, Retry, RunPausedError, bind, model, step, workflow
from counterfoil.errors import DeclarationError, DuplicateWorkflowError

pytestmark = pytest.mark.anyio


def test_a_plain_function_is_no_workflow():
    with pytest.raises(DeclarationError, match="a workflow must be `async def`") as caught:

        @workflow
        def plain(ctx: Context) -> None:
            """Not async."""

    assert "Make it async" in caught.value.hint


def test_a_method_is_no_workflow():
    with pytest.raises(DeclarationError, match="its first parameter must be the Context"):

        class Agent:
            @workflow
            async def act(self, ctx: Context) -> None:
                """Where would its object come from in another process?"""


@pytest.mark.parametrize("make", [workflow, workflow(name="x")], ids=["bare", "with a name"])
def test_a_workflow_without_a_context_is_refused(make):
    with pytest.raises(DeclarationError, match="its first parameter must be the Context"):
        make(no_context)


async def no_context() -> None:
    """Takes nothing."""


async def rest(ctx: Context, *rest: str) -> None:
    """Takes what has no name."""


async def named_rest(ctx: Context, **rest: str) -> None:
    """Takes what is not known beforehand."""


async def positional(ctx: Context, question: str, /) -> None:
    """Hides its name."""


@pytest.mark.parametrize("function", [rest, named_rest, positional])
def test_a_parameter_that_has_no_name_is_refused(function):
    with pytest.raises(DeclarationError, match="recorded by parameter name"):
        workflow(function)


async def generated():
    yield 1


def generated_plainly():
    yield 1


@pytest.mark.parametrize("declare", [step, model, step(name="x")], ids=["step", "model", "step with a name"])
@pytest.mark.parametrize("function", [generated, generated_plainly])
def test_a_generator_is_no_step(declare, function):
    with pytest.raises(DeclarationError, match="a generator can't be a step"):
        declare(function)


def test_an_opaque_name_must_be_a_parameter():
    with pytest.raises(DeclarationError, match=r"opaque names \['client'\]"):

        @step(opaque=("client",))
        async def send(text: str) -> None:
            """Has no client."""


def test_two_workflows_of_one_name_are_refused_and_both_places_named():
    @workflow(name="twice")
    async def first(ctx: Context) -> None:
        """The first."""

    with pytest.raises(DuplicateWorkflowError) as caught:

        @workflow(name="twice")
        async def second(ctx: Context) -> None:
            """The second."""

    places = [caught.value.facts["first"], caught.value.facts["second"]]
    assert [place.rpartition(":")[0] for place in places] == [__file__, __file__]
    assert places[0] != places[1]


def test_an_alias_in_use_is_refused():
    @workflow
    async def taken(ctx: Context) -> None:
        """Has the name."""

    with pytest.raises(DuplicateWorkflowError):

        @workflow(aliases=("taken",))
        async def other(ctx: Context) -> None:
            """Wants it too."""


def test_a_refused_workflow_leaves_no_name_behind():
    @workflow
    async def taken(ctx: Context) -> None:
        """Has the name."""

    with pytest.raises(DuplicateWorkflowError):
        workflow(name="fresh", aliases=("taken",))(rest_free)

    @workflow(name="fresh")
    async def may_have_it(ctx: Context) -> None:
        """The name is free."""


async def rest_free(ctx: Context) -> None:
    """Declared by the test above."""


async def test_a_cell_that_is_run_again_replaces_its_workflow(journal):
    source = "@workflow\nasync def cell(ctx: Context) -> str:\n    return {!r}\n"
    names = {"workflow": workflow, "Context": Context, "__name__": "__main__"}
    results = []
    for version in ("old", "new"):
        exec(source.format(version), names)
        results.append(await journal.run(names["cell"]))
    assert results == ["old", "new"]


def test_a_bound_call_checks_its_arguments_at_once():
    @workflow
    async def work(ctx: Context, question: str, *, depth: int = 3) -> None:
        """Takes one question."""

    assert repr(bind(work, "q", depth=4)) == "<call of work>"
    for wrong in (lambda: bind(work), lambda: bind(work, "q", 4), lambda: bind(work, "q", deep=4)):
        with pytest.raises(TypeError):
            wrong()


# --- what is given to ctx.step ---


def only_step(make):
    @workflow
    async def only(ctx: Context) -> object:
        return await make(ctx)

    return only


def closed(coroutine):
    coroutine.close()
    return coroutine


async def two(a: int, b: int = 2) -> list[int]:
    return [a, b]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda ctx: ctx.step(lambda: 1), "a lambda has no name"),
        (lambda ctx: ctx.step(closed(two(1))), "it is no function"),
        (lambda ctx: ctx.step("two"), "it is no function"),
        (lambda ctx: ctx.step(generated), "a generator can't be a step"),
        (lambda ctx: ctx.step(rest_workflow), "a workflow is no step"),
        (lambda ctx: ctx.with_options(opaque=("c",)).step(two, 1), "opaque names"),
    ],
    ids=["lambda", "coroutine", "text", "generator", "workflow", "opaque"],
)
async def test_what_is_no_step_pauses_the_run_and_says_why(journal, make, problem):
    with pytest.raises(RunPausedError, match=problem) as caught:
        await journal.run(only_step(make), id="r")
    assert caught.value.facts["reason"] == "declaration_invalid"
    assert [event.type for event in await journal.events("r")][2:] == ["run_paused"]


@workflow(name="test_declarations.rest")
async def rest_workflow(ctx: Context) -> None:
    """Given as a step by mistake."""


async def test_a_lambda_with_a_name_is_a_step(journal):
    only = only_step(lambda ctx: ctx.with_options(name="double").step(lambda x: x * 2, 4))
    assert await journal.run(only, id="r") == 8
    assert (await journal.events("r"))[2].body.name == "double"


class Times:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, x: int) -> int:
        return x * self.factor


async def test_a_callable_object_is_a_step_named_by_its_class(journal):
    assert await journal.run(only_step(lambda ctx: ctx.step(Times(3), 4)), id="r") == 12
    body = (await journal.events("r"))[2].body
    assert (body.name, bytes(body.input)) == ("Times", b'{"x":4}')


@pytest.mark.parametrize(
    ("function", "args", "result"), [(len, ["abc"], 3), (sum, [[1, 2]], 3), (sorted, [[2, 1]], [1, 2])]
)
async def test_a_builtin_function_is_a_step(journal, *, function, args, result):
    assert await journal.run(only_step(lambda ctx: ctx.step(function, *args))) == result


async def test_a_function_with_a_rest_of_arguments_is_a_step(journal):
    async def many(first: int, *others: int, **named: int) -> list[object]:
        return [first, list(others), named]

    only = only_step(lambda ctx: ctx.step(many, 1, 2, 3, deep=4))
    assert await journal.run(only, id="r") == [1, [2, 3], {"deep": 4}]
    assert bytes((await journal.events("r"))[2].body.input) == b'{"first":1,"others":[2,3],"named":{"deep":4}}'


async def test_positional_only_parameters_are_input_by_name(journal):
    async def hidden(x: int, /, y: int) -> int:
        return x - y

    assert await journal.run(only_step(lambda ctx: ctx.step(hidden, 5, 3)), id="r") == 2
    assert bytes((await journal.events("r"))[2].body.input) == b'{"x":5,"y":3}'


# --- options ---


class Client:
    """Holds a connection: can't be recorded."""


@step(opaque=("client",))
async def send(text: str, client: Client) -> str:
    return f"{text} by {type(client).__name__}"


@pytest.mark.parametrize(
    "make",
    [
        lambda ctx: ctx.step(send, "hi", Client()),
        lambda ctx: ctx.step(send, "hi", client=Client()),
        lambda _: send("hi", Client()),
    ],
    ids=["position", "keyword", "directly"],
)
async def test_an_opaque_argument_is_no_input_but_its_type_is_kept(journal, make):
    assert await journal.run(only_step(make), id="r") == "hi by Client"
    body = (await journal.events("r"))[2].body
    assert (bytes(body.input), body.opaque) == (b'{"text":"hi"}', {"client": "Client"})


async def test_with_options_leaves_the_context_as_it_was(journal):
    @workflow
    async def views(ctx: Context) -> list[str]:
        named = ctx.with_options(name="a")
        both = named.with_options(retry=Retry(tries=1))
        await both.step(two, 1)
        await named.step(two, 1)
        await ctx.step(two, 1)
        return [str(each is ctx) for each in (named, both)]

    assert await journal.run(views, id="r") == ["False", "False"]
    names = [event.body.name for event in await journal.events("r") if event.type == "step_intended"]
    assert names == ["a", "a", "two"]


async def test_with_options_records_nothing(journal):
    @workflow
    async def views(ctx: Context) -> None:
        ctx.with_options(name="a", retry=Retry(), timeout=3, returns=int, on_unknown="pause")

    await journal.run(views, id="r")
    assert [event.type for event in await journal.events("r")] == ["run_started", "attempt_started", "run_completed"]


async def test_the_options_of_the_call_win_over_those_of_the_decorator(journal, calls):
    late = calls.function("late", TimeoutError("late"))

    @step(name="declared", retry=Retry(tries=4))
    async def declared() -> object:
        return await late()

    with pytest.raises(RunPausedError):
        await journal.run(only_step(lambda ctx: ctx.with_options(retry=Retry(tries=2)).step(declared)), id="r")
    assert ((await journal.events("r"))[2].body.name, calls["late"]) == ("declared", 2)


async def test_options_are_not_inherited_by_helpers(journal):
    from counterfoil import current  # noqa: PLC0415 - only here

    async def helper() -> list[int]:
        return await current().step(two, 1)

    @workflow
    async def calls_it(ctx: Context) -> list[int]:
        ctx.with_options(name="other")
        return await helper()

    await journal.run(calls_it, id="r")
    assert (await journal.events("r"))[2].body.name == "two"


@pytest.mark.parametrize(("declared", "version"), [({}, None), ({"version": "7"}, "7")])
async def test_the_contract_is_the_declared_version_or_a_digest_of_the_signature(journal, declared, *, version):
    async def first(a: int) -> int:
        return a

    async def second(a: int, b: int = 1) -> int:
        return a

    contracts, steps = [], []
    for function in (first, second):
        steps.append(step(**declared)(function))
        await journal.run(only_step(lambda ctx: ctx.step(steps[-1], 1)), id=function.__name__)
        contracts.append((await journal.events(function.__name__))[2].envelope.contract)
    assert (contracts == [version, version], contracts[0] == contracts[1]) == (version is not None, version is not None)


@pytest.mark.parametrize(
    "option",
    [
        {"version": 2},
        {"name": 5},
        {"name": "a\ud800"},
        {"worst_cost_usd": "0.2"},
        {"retry": 3},
        {"on_unknown": "Pause"},
        {"timeout": "5"},
    ],
)
async def test_an_option_of_a_wrong_type_is_refused_before_it_is_recorded(journal, option):
    with pytest.raises(DeclarationError):
        step(**option)(two)
    with pytest.raises(RunPausedError, match="declaration_invalid"):
        await journal.run(only_step(lambda ctx: ctx.with_options(**option).step(two, 1)), id="r")
    assert [event.type for event in await journal.events("r")] == ["run_started", "attempt_started", "run_paused"]


async def test_a_cost_given_as_a_decimal_is_recorded_as_a_number(journal):
    priced = model(worst_cost_usd=decimal.Decimal("0.2"))(two)
    await journal.run(only_step(lambda ctx: ctx.model(priced, 1)), id="r")
    assert (await journal.events("r"))[2].body.worst_cost_usd == 0.2


@pytest.mark.parametrize("named", [{"version": 3}, {"name": 5}, {"name": "a\n"}, {"aliases": (7,)}])
def test_a_workflow_is_named_by_printable_text(named):
    async def unnamed(ctx: Context) -> None:
        """Never declared."""

    with pytest.raises(DeclarationError, match="printable"):
        workflow(**named)(unnamed)


@pytest.mark.parametrize("builtin", [max, dict])
async def test_a_builtin_without_visible_parameters_is_refused_as_a_step(journal, builtin):
    with pytest.raises(RunPausedError, match="declaration_invalid"):
        await journal.run(only_step(lambda ctx: ctx.step(builtin, [1])))


async def test_an_object_that_cannot_be_hashed_can_be_a_step(journal):
    class Adder:
        __hash__ = None

        def __call__(self, number: int) -> int:
            return number + 1

    assert await journal.run(only_step(lambda ctx: ctx.step(Adder(), 1))) == 2


@pytest.mark.parametrize("dollars", [-0.01, float("nan"), float("inf")])
def test_a_bound_of_a_cost_that_is_no_amount_is_refused(dollars):
    with pytest.raises(DeclarationError, match="dollars are no bound"):

        @model(worst_cost_usd=dollars)
        def ask() -> None:
            """A model call."""
