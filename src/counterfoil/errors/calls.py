"""Errors of declarations, and of calls that were made where they can't be made or recorded."""

from counterfoil.errors.root import CounterfoilError


class DeclarationError(CounterfoilError):
    """A workflow or step is declared in a way that can't work; raised where it is declared."""

    code = "declaration_invalid"
    sentence = "{name}: {problem}"
    advice = "{fix}"
    name: str
    problem: str
    fix: str


class DuplicateWorkflowError(DeclarationError):
    """Two workflows of one process have the same name."""

    code = "workflow_duplicate"
    sentence = "two workflows are named {name!r}: one in {first}, one in {second}"
    advice = "Rename one of them, or give it @workflow(name=...)."
    first: str
    second: str


class CallError(CounterfoilError):
    """A call was made where it can't be recorded. Nothing was run and nothing was recorded."""

    code = "call_invalid"


class NotInRunError(CallError):
    """`current()` was asked for outside a run, or `this_step()` outside a step."""

    code = "not_in_run"
    sentence = "there is no run here: {what} works only {where}"
    advice = "Call it from a @workflow function, a step, or something they call; in_run() tells whether there is a run."
    what: str
    where: str


class NestedStepError(CallError):
    """A context call was made inside a step."""

    code = "nested_step"
    sentence = "{inner} was called inside the step {outer}"
    advice = "A step is recorded as one whole. Move the inner call to the workflow's body, or make it a plain function."
    inner: str
    outer: str


class SyncStepCalledError(CallError):
    """A decorated plain function was called directly in a workflow's body."""

    code = "sync_step_called"
    sentence = "{name} is a plain function, so calling it here would block and could not be recorded"
    advice = "Write `await ctx.{kind}({name}, ...)`, or make it `async def`."
    name: str
    kind: str


class ResourceNotGivenError(CallError):
    """A function was called by hand without a value for a parameter that has `use(...)` as its default."""

    code = "resource_not_given"
    sentence = "the value of use({provider}) was needed where no step of a run gets it"
    advice = (
        "Hand it over as an argument; or, in a workflow's body, make the call a step of its own: "
        "`await ctx.step(function, ...)`."
    )
    provider: str


class ConcurrentCallError(CallError):
    """A context call came from a thread or a task that is none of the run's, or while another one was under way."""

    code = "concurrent_call"
    sentence = "{what} was called {how}"
    advice = (
        "Call it from the workflow's own code, or from a task which that made by gather, create_task or a TaskGroup. "
        "What runs in a thread can be a step: `await ctx.step(function)`."
    )
    what: str
    how: str


class UnsafeConstructError(CallError):
    """The workflow's body uses something of asyncio whose outcome hangs on real time, so a replay could differ."""

    code = "unsafe_construct"
    sentence = "{construct} was used in a workflow's body at {source}: what it gives hangs on real time"
    advice = "{fix}"
    construct: str
    source: str
    fix: str


class BranchLeftError(CallError):
    """The workflow returned while tasks that it had made were not at their end."""

    code = "branch_left"
    sentence = "the workflow returned and left {count} of its tasks behind: {names}"
    advice = "Await every task before returning, for example by a TaskGroup or asyncio.gather; then resume."
    count: int
    names: str


class StreamLeftError(CallError):
    """A task of the workflow came to its end and left a streamed answer open."""

    code = "stream_left"
    sentence = "a task of the workflow ended and left {what} open"
    advice = "Iterate to the end of the stream, or close it: `async with` does, whatever happens. Then resume."
    what: str


class CallCancelledError(CallError):
    """Something that is not recorded, such as a timer, cancelled a context call that was under way."""

    code = "call_cancelled"
    sentence = "{what} was cancelled while it was under way, by something that is not recorded"
    advice = (
        "When a timer or something outside the run cancels it, a replay could take another way. "
        "Use the step's timeout= instead, then resume."
    )
    what: str


class SendRefusedError(CallError):
    """A request of a model step was not sent: it could not be written down first, or its step is over."""

    code = "send_refused"
    sentence = "{step}: the request to {url} was not sent: {why}"
    advice = "{fix}"
    step: str
    url: str
    why: str
    fix: str
    is_repeat: bool = False  # by the client, of a request without an answer: another try of the step does as well


class StreamCutError(CounterfoilError):
    """A model's streamed answer ended before the mark by which its protocol says that it is whole."""

    code = "stream_cut"
    sentence = "the stream of {url} ended after {events} events without its end mark"
    advice = "What had come is no answer, and the step is tried again. If it always ends so, ask the provider."
    url: str
    events: int
