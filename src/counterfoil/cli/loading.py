"""Loads a workflow from `FILE.py:workflow`.

The module's name is the file's stem, so that what is recorded of it (classes of exceptions, for example) is the same
from every folder and at every start; its folder comes first on the path, so that its neighbours can be imported.
"""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from counterfoil.cli.outcomes import CodeError
from counterfoil.engine.calls import ATTRIBUTE
from counterfoil.engine.definitions import Workflow
from counterfoil.errors import CounterfoilError

Function = Callable[..., Any]


def load(target: str) -> Function:
    """The workflow that `FILE.py:workflow` names, or the only one of `FILE.py`. Raises CodeError."""
    file, name = _parts(target)
    found = workflows(load_file(file))
    if name:
        if name not in found:
            raise CodeError(file=file, problem=f"it has no workflow {name!r}", fix=_choices(file, found))
        return found[name]
    if len(found) != 1:
        problem = f"it has {len(found)} workflows" if found else "it has no workflow"
        raise CodeError(file=file, problem=problem, fix=_choices(file, found))
    return next(iter(found.values()))


def load_named(target: str) -> Function | None:
    """The workflow that is named; None for a file alone, which is loaded: the run's record says which of its it is."""
    file, name = _parts(target)
    if name:
        return load(target)
    load_file(file)
    return None


def load_file(file: str) -> ModuleType:
    """Run the file as a module. Raises CodeError, which names file and line of what went wrong in it."""
    path = Path(file).absolute()
    if not path.is_file():
        fix = "Give the path of a Python file, such as agent.py:workflow."
        raise CodeError(file=file, problem="there is no such file", fix=fix)
    module = _new_module(path, file)
    sys.path.insert(0, str(path.parent))
    sys.modules[module.__name__] = module
    try:
        module.__spec__.loader.exec_module(module)  # type: ignore[union-attr] # made with a loader just above
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        fix = error.hint if isinstance(error, CounterfoilError) else "Mend that line; --traceback shows the way to it."
        raise CodeError(file=file, problem=_described(error, path), fix=fix) from error
    return module


def workflows(module: ModuleType) -> dict[str, Function]:
    """The module's workflows by the names of its variables, and by those they are recorded under."""
    functions = {name: value for name, value in vars(module).items() if _declared(value)}
    own = {name: value for name, value in functions.items() if value.__module__ == module.__name__}
    return own or functions


def _declared(value: Any) -> Workflow | None:
    declared = getattr(value, ATTRIBUTE, None) if callable(value) else None
    return declared if isinstance(declared, Workflow) else None


def _parts(target: str) -> tuple[str, str]:
    """File and name; a file whose own name holds a colon is taken as a whole."""
    file, separator, name = target.rpartition(":")
    return (file, name) if separator and not Path(target).is_file() else (target, "")


def _new_module(path: Path, file: str) -> ModuleType:
    if path.stem in sys.modules:
        problem = f"a module named {path.stem!r} is loaded already"
        raise CodeError(file=file, problem=problem, fix="Rename the file.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None:
        raise CodeError(file=file, problem="it is no Python source", fix="Its name must end in .py.")
    return importlib.util.module_from_spec(spec)


def _described(error: BaseException, path: Path) -> str:
    """The error in one line, with the last line of the user's own code that led to it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"line {error.lineno} of {error.filename}: {type(error).__name__}: {error.msg}"
    what = str(error) if isinstance(error, CounterfoilError) else f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(path.parent)]
    return f"line {own[-1].lineno} of {own[-1].filename}: {what}" if own else what


def _choices(file: str, found: dict[str, Function]) -> str:
    if not found:
        return "Put @counterfoil.workflow on an async function of it."
    return f"It has: {', '.join(f'{file}:{name}' for name in found)}."
