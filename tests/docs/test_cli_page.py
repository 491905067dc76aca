"""docs/cli.md names every command, argument and option that the command line has."""

from collections.abc import Iterator

import click
import pytest

from counterfoil.cli.main import cli


def _commands(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    yield "counterfoil", group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"counterfoil {name}", command


COMMANDS = dict(_commands(cli))


@pytest.fixture
def page(pages) -> str:
    return pages["docs/cli.md"].text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_described(page, name):
    assert name in page


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(page, name):
    options = [option for p in COMMANDS[name].params if isinstance(p, click.Option) for option in p.opts]
    assert [option for option in options if option not in page] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_a_help_text(name):
    options = [p for p in COMMANDS[name].params if isinstance(p, click.Option)]
    assert COMMANDS[name].help
    assert [option.name for option in options if not option.help] == []
