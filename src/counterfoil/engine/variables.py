"""Context variables of a step: it sees those of its caller, and what it sets is seen by nobody else.

A plain function has that by its thread. An async one runs in its branch's own task, so it must be kept apart: what it
leaves behind would be there for the workflow's code live, and on no replay.
"""

import contextvars
import types
from collections.abc import Awaitable, Generator
from typing import Any


@types.coroutine
def apart(made: Awaitable[Any], variables: contextvars.Context | None = None) -> Generator[Any, Any, Any]:
    """Await in this task, in a copy of its context variables, or in those that are given."""
    variables = contextvars.copy_context() if variables is None else variables
    inner: Any = made.__await__()
    go_on: Any = inner.__next__
    given: tuple[Any, ...] = ()
    while True:
        try:
            waited = variables.run(go_on, *given)
        except StopIteration as ended:
            return ended.value
        try:
            yield waited
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:  # noqa: BLE001 - a cancellation, for the step to see
            go_on, given = inner.throw, (error,)
        else:
            go_on, given = inner.__next__, ()
