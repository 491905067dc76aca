"""What the stub model is told to do, call by call.

A plan is data that another process may send as JSON. Reading it decides everything that befalls a call before the
call is answered; nothing here is drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, TypeAlias, TypedDict, TypeVar, cast

from counterfoil.testing.dialects import Dialect, Json, canonical, prompt_digest

Kind: TypeAlias = Literal["model", "tool"]
Drop: TypeAlias = Literal["before", "after"] | None
Answer: TypeAlias = str | dict[str, Json]
End: TypeAlias = Literal["whole", "cut", "clean cut", "error event", "silence"]
T = TypeVar("T")

BODIES = {"choices", "output"}  # what a whole body has and a chat message has not


class Plan(TypedDict, total=False):
    """What the stub does; each list is read call by call, from the first call of its kind.

    A repeat under a key that is honoured takes its place in every list but the script, `usages` and the wording.
    """

    script: Sequence[Answer]  # "tool", "final", a chat message, or a whole body of the protocol asked for
    vary: bool  # every answer differs from every other in its wording
    usages: Sequence[dict[str, Json] | None]  # laid over an answer's usage, key by key
    delays: Sequence[float]  # seconds an answer of the model is held back
    drops: Sequence[Drop]  # close the connection before or after the work, unanswered
    statuses: Sequence[int]  # 200, or the error returned in place of the work
    retry_afters: Sequence[str | float | None]  # header `retry-after` of an error
    paces: Sequence[float]  # seconds between two events of a stream
    cuts: Sequence[int | None]  # break the connection after so many events; a plain answer in its middle
    clean_cuts: Sequence[int | None]  # end a stream after so many events as if that were all, without its end mark
    error_events: Sequence[int | None]  # after so many events the stream says that it failed, and ends
    stalls: Sequence[int | None]  # after so many events a stream says nothing more until its caller leaves
    gzip: bool  # compress answers to those who accept it
    honours_keys: bool  # a known `Idempotency-Key` gets the answer it had, and no second work is done
    strict: bool  # refuse calls of tools and results that are not one to one, as providers do
    tool_delays: Sequence[float]
    tool_drops: Sequence[Drop]
    tool_statuses: Sequence[int]
    tool_results: dict[str, Json]  # what each tool returns, by its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the plan says about one call."""

    delay: float
    drop: Drop
    status: int
    retry_after: str | None = None
    pace: float = 0.0
    events: int | None = None  # how many of a stream's events are sent, unless all
    end: End = "whole"
    gzip: bool = False

    @property
    def does_work(self) -> bool:
        """Whether the model or tool does what it is asked."""
        return self.status == HTTPStatus.OK and self.drop != "before"


def checked(plan: Plan) -> Plan:
    """Return the plan; raise ValueError when it means nothing."""
    if unknown := sorted(set(plan) - set(Plan.__annotations__)):
        raise ValueError(f"not part of a plan: {', '.join(unknown)}")
    for answer in plan.get("script", ()):
        if not isinstance(answer, dict) and answer not in {"tool", "final"}:
            raise ValueError(f'an answer is "tool", "final" or an object, not {answer!r}')
    for drop in (*plan.get("drops", ()), *plan.get("tool_drops", ())):
        if drop not in {"before", "after", None}:
            raise ValueError(f'a drop is "before", "after" or null, not {drop!r}')
    cuts: list[Json] = [*plan.get("cuts", ()), *plan.get("clean_cuts", ())]
    for count in (*cuts, *plan.get("error_events", ()), *plan.get("stalls", ())):
        if count is not None and (not isinstance(count, int) or count < 0):
            raise ValueError(f"a stream breaks after a number of events or, with null, not at all, not {count!r}")
    return plan


def turn_of(plan: Plan, kind: Kind, n: int) -> Turn:
    """Return what befalls call `n` of its kind."""
    if kind == "tool":
        return Turn(
            delay=_nth(plan.get("tool_delays"), n, 0.0),
            drop=_nth(plan.get("tool_drops"), n, None),
            status=_nth(plan.get("tool_statuses"), n, 200),
        )
    events, end = _break(plan, n)
    retry_after = _nth(plan.get("retry_afters"), n, None)
    return Turn(
        delay=_nth(plan.get("delays"), n, 0.0),
        drop=_nth(plan.get("drops"), n, None),
        status=_nth(plan.get("statuses"), n, 200),
        retry_after=None if retry_after is None else str(retry_after),
        pace=_nth(plan.get("paces"), n, 0.0),
        events=events,
        end=end,
        gzip=plan.get("gzip", False),
    )


def _break(plan: Plan, n: int) -> tuple[int | None, End]:
    """Return where the answer breaks, and how: where it breaks first."""
    breaks: list[tuple[int | None, End]] = [
        (_nth(plan.get("cuts"), n, None), "cut"),
        (_nth(plan.get("clean_cuts"), n, None), "clean cut"),
        (_nth(plan.get("error_events"), n, None), "error event"),
        (_nth(plan.get("stalls"), n, None), "silence"),
    ]
    planned = [each for each in breaks if each[0] is not None]
    return min(planned, key=lambda each: each[0] or 0, default=(None, "whole"))


def _nth(values: Sequence[T] | None, n: int, otherwise: T) -> T:
    return values[n - 1] if values and n <= len(values) else otherwise


def body_of(plan: Plan, dialect: Dialect, *, request: dict[str, Json], place: int) -> dict[str, Json]:
    """Return the whole answer at this place of the script; raise ValueError for a body of another protocol."""
    answer = _answer(plan, dialect, request=request, place=place)
    is_whole = dialect.is_body(answer)
    if not is_whole and (answer.get("type") == "message" or not BODIES.isdisjoint(answer)):
        raise ValueError(f"answer {place} of the script is a body of another protocol than {dialect.api}")
    body = answer if is_whole else dialect.body(answer, request, place)
    own = _nth(plan.get("usages"), place, None)
    return {**body, "usage": _usage(body.get("usage") or {}, own)} if own else body


def _usage(counted: dict[str, Json], own: dict[str, Json]) -> dict[str, Json]:
    usage = {**counted, **own}
    if "total_tokens" in counted and "total_tokens" not in own:
        parts = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
        usage["total_tokens"] = sum(usage.get(part, 0) for part in parts)
    return usage


def _answer(plan: Plan, dialect: Dialect, *, request: dict[str, Json], place: int) -> dict[str, Json]:
    """The script's answer, its last one for ever; without a script the history decides."""
    if script := plan.get("script", ()):
        answer = script[min(place, len(script)) - 1]
    else:
        answer = "final" if dialect.is_answered(request) else "tool"
    if isinstance(answer, dict):
        return answer
    wording = f" (wording {place})" if plan.get("vary") else ""
    if answer == "final":
        return {"role": "assistant", "content": f"Take an umbrella.{wording}"}
    message = tool_call("get_weather", city="Paris")
    message["content"] = f"I look at the weather.{wording}" if wording else None
    message["tool_calls"][0]["id"] = f"call_{place if wording else prompt_digest(dialect.history(request))}"
    return message


def tool_call(name: str, **arguments: Json) -> dict[str, Json]:
    """A script entry: the model asks for this tool."""
    function = {"name": name, "arguments": canonical(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def tool_calls(*entries: dict[str, Json], content: str | None = None) -> dict[str, Json]:
    """A script entry: the model asks for several tools at once, each given as `tool_call(...)`.

    Their ids are numbered, so that one tool may be asked for twice.
    """
    calls = [call for entry in entries for call in cast("list[Json]", entry["tool_calls"])]
    numbered = [{**call, "id": f"{call['id']}_{n}"} for n, call in enumerate(calls, 1)]
    return {"role": "assistant", "content": content, "tool_calls": numbered}
