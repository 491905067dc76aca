"""Errors of values: what can't be recorded, or not be read back."""

from typing import Any

from counterfoil.errors.root import CounterfoilError


class ValueFormError(CounterfoilError):
    """A value has a form that the journal can't keep or give back exactly."""

    code = "value_form"


class NotStorableError(ValueFormError):
    """A value can't be written down so that exactly the same comes back."""

    code = "not_storable"
    sentence = "{where}: the value at {path} ({type}) can't be recorded: {reason}"
    advice = "{fix}"
    where: str
    path: str
    type: str
    reason: str
    fix: str


class ResultNotStorableError(NotStorableError):
    """A step ran, and what it returned can't be recorded. It is never run again for that."""

    code = "result_not_storable"
    sentence = "{where}: the step ran, but the value at {path} ({type}) can't be recorded: {reason}"


class ResultTypeUnknownError(ValueFormError):
    """A result can be kept, but not given back yet: nothing declares the class of an instance in it.

    `encoded` holds what is to be kept: the bytes are those that a declared result has.
    """

    code = "result_type_unknown"
    sentence = (
        "{where}: the value at {path} is a {type}, which is neither in the annotation ({annotation}) nor registered"
    )
    advice = "Annotate the function with {type}, or give returns=, or counterfoil.register the class; then resume."
    where: str
    path: str
    type: str
    annotation: str
    encoded: Any = None


class NotReadableError(ValueFormError):
    """A recorded value no longer fits the type that the code now declares."""

    code = "not_readable"
    sentence = "{where}: the recorded value at {path} does not fit {type}: {reason}"
    advice = "Give the function the annotation (or returns=) that it had when this was recorded, then resume."
    where: str
    path: str
    type: str
    reason: str

    def __init__(self, *, path: str = "$", **facts: Any) -> None:
        """`path` is the place inside the value."""
        super().__init__(path=path, **facts)


class ExceptionUnknownError(ValueFormError):
    """A recorded exception's class is not there to raise it again, though it was there when the step failed."""

    code = "exception_unknown"
    sentence = "the recorded failure {type} ({message}) can't be raised again here: {reason}"
    advice = (
        "Import the module that defines it, or counterfoil.register() the class, before the run is taken up. "
        "Then resume."
    )
    type: str
    message: str
    reason: str


class InputInvalidError(ValueFormError):
    """The arguments do not fit the function's signature or types."""

    code = "input_invalid"
    sentence = "the input does not fit {name}{signature}: {reason}"
    advice = "Give the arguments by the names and types shown."
    name: str
    signature: str
    reason: str


class SecretError(CounterfoilError):
    """A declared secret is missing, or too short to be told from ordinary text."""

    code = "secret_invalid"
    sentence = "the secret {name} {problem}"
    advice = "Set the environment variable {name} to its value (6 characters or more) before opening the journal."
    name: str
    problem: str
