"""The lab's agent. Its twin is the same but for one line: how the model is asked."""

from counterfoil import Context, workflow
from counterfoil.lab import world


@workflow
async def weather_agent(ctx: Context, question: str) -> str:
    """Ask the model, run its tool, wait for the rate limit, ask again, until it answers."""
    history = world.opening(question)
    while True:
        decision = await ctx.model(world.paid_ask, history)
        if decision.answer:
            return decision.answer
        weather = await ctx.step(world.get_weather, decision.city)
        history = world.told(history, decision, weather)
        await ctx.sleep(world.pause_seconds())
