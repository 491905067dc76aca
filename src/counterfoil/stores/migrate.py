"""The schema of a SQL store: ordered files, each applied once, in one transaction."""

from importlib.resources import files

from counterfoil.errors import StoreNewerError


def scripts(dialect: str) -> list[str]:
    """All schema scripts of a dialect, in order; script n brings the schema to version n (from 1)."""
    folder = files("counterfoil.stores") / "sql" / dialect
    named = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [entry.read_text(encoding="utf-8") for _, entry in named]


def pending(dialect: str, *, found: int, store: str) -> list[str]:
    """The scripts that a store with schema `found` still needs.

    Raises StoreNewerError when it has more than we know.
    """
    known = scripts(dialect)
    if found > len(known):
        raise StoreNewerError(store=store, found=found, known=len(known))
    return known[found:]
