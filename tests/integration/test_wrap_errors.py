"""A client's own exceptions: retried durably, recorded, and raised the same live as on replay (J2, J6, J10)."""

import sys

import anthropic
import openai
import pytest
from tests.integration.wrapping import FORMS, HERE, KEY

import counterfoil
from counterfoil import Context, Retry, RunPausedError, RunStoppedError, workflow
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
}
MODULES = {"chat": openai, "responses": openai, "messages": anthropic}


@pytest.fixture
def stub():
    with StubModel(script=["final"]) as running:
        yield running


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=["async", "plain"])
def wrapped(request, form, stub):
    """Makes the wrapped client."""

    def make(*, max_retries=0, timeout=5.0, **options):
        HERE.form = FORMS[form]
        kind = HERE.form.async_client if request.param == "async" else HERE.form.plain_client
        client = kind(base_url=stub.url + HERE.form.base, api_key=KEY, max_retries=max_retries, timeout=timeout)
        HERE.client = counterfoil.wrap(client, **options)

    return make


async def answer():
    made = HERE.form.ask(HERE.client)
    return await made if hasattr(made, "__await__") else made


@workflow(name="test_wrap_errors.catches")
async def catches(ctx: Context) -> str:
    try:
        answered = await answer()
    except (openai.APIError, anthropic.APIError) as error:
        HERE.seen.append(error)
        if HERE.crashes:
            sys.exit(1)
        return str(error)
    return HERE.form.text(answered)


async def live_and_replayed(desk):
    HERE.seen, HERE.crashes = [], True
    async with desk.open() as journal:
        with pytest.raises(RunStoppedError):
            await journal.run(catches, id="r")
        HERE.crashes = False
        await journal.run(catches, id="r")
    return HERE.seen


def told(error):
    """What code may ask a status error."""
    response, request = error.response, error.request
    return (
        *(type(error), str(error), error.message, error.status_code, error.body, error.request_id),
        *(response.status_code, response.json(), response.text, response.headers["Content-Type"]),
        *(request.method, str(request.url), "authorization" in request.headers, "x-api-key" in request.headers),
    )


@pytest.mark.parametrize("status", CLASSES)
async def test_an_error_of_the_server_is_the_clients_own_exception_live_as_on_replay(
    wrapped, form, stub, memory_desk, status
):
    stub.configure(statuses=[status])
    wrapped(retry=Retry(tries=1))
    live, replayed = await live_and_replayed(memory_desk)
    assert type(live) is getattr(MODULES[form], CLASSES[status])
    assert told(replayed) == told(live)
    assert told(live)[3] == status
    assert told(live)[-2:] == (False, False)
    assert len(stub.log) == 1


@pytest.mark.parametrize(
    ("plan", "name"), [({"drops": ["before"]}, "APIConnectionError"), ({"delays": [30.0]}, "APITimeoutError")]
)
async def test_a_lost_connection_and_a_timeout_are_the_clients_own_too(wrapped, form, stub, memory_desk, plan, name):
    stub.configure(**plan)
    wrapped(retry=Retry(tries=1), timeout=0.3)
    live, replayed = await live_and_replayed(memory_desk)
    assert type(live) is type(replayed) is getattr(MODULES[form], name)
    assert str(replayed) == str(live)
    assert (replayed.request.method, replayed.request.url) == (live.request.method, live.request.url)
    assert len(stub.log) == 1


async def test_what_may_pass_is_tried_five_times_durably_each_with_the_clients_own_retries(
    wrapped, stub, memory_desk, types_of
):
    stub.configure(statuses=[500, 500, 500, 500], script=["final"])
    wrapped(max_retries=1)
    async with memory_desk.open() as journal:
        assert await journal.run(catches, id="r") == "Take an umbrella."
        assert types_of(await journal.events("r")).count("retry_set") == 2
    assert len(stub.log) == 5  # two of the client's in each of two tries, and the last


async def test_the_options_of_wrap_bound_the_tries(wrapped, stub, memory_desk):
    stub.configure(statuses=[500])
    wrapped(retry=Retry(tries=1))
    HERE.seen, HERE.crashes = [], False
    async with memory_desk.open() as journal:
        await journal.run(catches, id="r")
    assert [type(error).__name__ for error in HERE.seen] == ["InternalServerError"]
    assert len(stub.log) == 1


@workflow(name="test_wrap_errors.fails")
async def fails(ctx: Context) -> str:
    return HERE.form.text(await answer())


async def test_a_failure_that_leaves_the_body_pauses_the_run_and_a_resume_asks_again(wrapped, stub, memory_desk):
    stub.configure(statuses=[401], script=["final"])
    wrapped()
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.run(fails, id="r")
        assert await journal.resume("r", fails) == "Take an umbrella."
    assert [call.status for call in stub.log] == [401, 200]
