"""docs/writing-workflows.md lists every option of a step."""

from counterfoil.engine.calls import Options


def test_every_option_of_a_step_is_described_and_no_other(pages, tables, words):
    options = [words(row[0])[0] for row in tables(pages["docs/writing-workflows.md"].sections()["Options"])[1:]]
    assert sorted(options) == sorted(Options.__struct_fields__)
