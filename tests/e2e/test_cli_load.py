"""FILE.py:WORKFLOW: what is loaded, under which name, and what is said when it can't be."""

import pytest

WORKFLOW = """
from counterfoil import Context, workflow

@workflow
async def {name}(ctx: Context) -> str:
    return __name__
"""


def write(folder, name, text):
    path = folder.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_a_file_with_one_workflow_needs_no_name_and_its_module_is_called_like_the_file(folder):
    write(folder, "one-agent.py", WORKFLOW.format(name="only"))
    assert folder("run", "one-agent.py").out == '"one-agent"\n'


def test_a_file_imports_its_neighbours_from_any_folder(folder):
    write(folder, "code/near.py", "NAME = 'near'")
    write(folder, "code/agent.py", "import near" + WORKFLOW.format(name="only").replace("__name__", "near.NAME"))
    assert folder("run", "code/agent.py:only").out == '"near"\n'


def test_imported_workflows_do_not_count_as_the_files_own(folder):
    write(folder, "other.py", WORKFLOW.format(name="elsewhere"))
    write(folder, "agent.py", "from other import elsewhere" + WORKFLOW.format(name="here"))
    assert folder("run", "agent.py").out == '"agent"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (", "agent.py: line 1 of {path}: SyntaxError: '(' was never closed"),
        ("\n\nimport nowhere", "agent.py: line 3 of {path}: ModuleNotFoundError: No module named 'nowhere'"),
        ("\nexit(1)", "agent.py: line 2 of {path}: SystemExit: 1"),
        ("x = 1", "agent.py: it has no workflow"),
        (WORKFLOW.format(name="one") + WORKFLOW.format(name="two"), "agent.py: it has 2 workflows"),
        (
            WORKFLOW.format(name="one").replace("async ", ""),
            "agent.py: line 4 of {path}: one: a workflow must be `async def`",
        ),
    ],
)
def test_a_file_that_can_not_be_used_is_told_without_a_traceback(folder, text, said):
    write(folder, "agent.py", text)
    ended = folder("run", "agent.py", "--id", "a-1")
    error, hint = ended.err.splitlines()
    assert (ended.code, error.partition("]: ")[2]) == (65, said.format(path=folder.path / "agent.py"))
    assert hint.startswith("hint: ")
    assert list(folder.path.glob("*.db")) == []


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("absent.py:one", "absent.py: there is no such file"),
        ("agent.py:three", "agent.py: it has no workflow 'three'"),
        ("code/json.py", "code/json.py: a module named 'json' is loaded already"),
        ("notes.txt", "notes.txt: it is no Python source"),
    ],
)
def test_a_target_that_is_not_there_is_told(folder, target, said):
    write(folder, "agent.py", WORKFLOW.format(name="one") + WORKFLOW.format(name="two"))
    write(folder, "code/json.py", "")
    write(folder, "notes.txt", "")
    ended = folder("run", target, "--json")
    assert (ended.code, ended.said[0]["error"]["message"]) == (65, said)


def test_a_missing_name_lists_what_there_is(folder):
    write(folder, "agent.py", WORKFLOW.format(name="one") + WORKFLOW.format(name="two"))
    assert folder("run", "agent.py").err.endswith("hint: It has: agent.py:one, agent.py:two.\n")


def test_the_traceback_of_a_file_is_shown_when_asked_for(folder):
    write(folder, "agent.py", "def broken():\n    raise ValueError('no key')\nbroken()")
    err = folder("run", "agent.py", "--traceback").err
    assert f'File "{folder.path / "agent.py"}", line 2, in broken' in err


TYPED = """
from dataclasses import make_dataclass
from counterfoil import Context, workflow

Answer = make_dataclass("Answer", [{fields}])

@workflow
async def only(ctx: Context) -> Answer:
    return Answer(1)
"""


def test_a_recorded_result_that_no_longer_fits_is_a_fault_of_the_code(folder):
    write(folder, "agent.py", TYPED.format(fields='("a", int)'))
    assert folder("run", "agent.py", "--id", "r").code == 0
    write(folder, "agent.py", TYPED.format(fields='("b", int)'))
    ended = folder("run", "agent.py", "--id", "r")
    assert (ended.code, ended.err.splitlines()[1].split(":")[0]) == (65, "error[not_readable]")
