"""The two tools of the training conversations and one use of a tool."""

import json

from pools import CITIES, WEATHER
from wording import think

WEATHER_TOOL = {
    "name": "get_weather",
    "description": "Get the current weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
CALC_TOOL = {
    "name": "calculator",
    "description": "Evaluate an arithmetic expression",
    "parameters": {
        "type": "object",
        "properties": {"expression": {"type": "string"}},
        "required": ["expression"],
    },
}


def tool_turn(r, names):
    """-> messages of one tool use: user, assistant call, tool result, assistant answer."""
    if r.choice(names) == "get_weather":
        c, t, w = r.choice(CITIES), r.randint(-12, 36), r.choice(WEATHER)
        q = r.choice(
            [
                "What is the weather in {c}?",
                "What is the weather like in {c}?",
                "How is the weather in {c} today?",
                "Is it cold in {c}?",
                "Tell me the weather in {c}.",
                "weather in {c}",
                "Do I need an umbrella in {c}?",
                "How warm is it in {c}?",
            ]
        ).format(c=c)
        call = {"name": "get_weather", "arguments": {"city": c}}
        result = json.dumps({"city": c, "temperature_c": t, "condition": w})
        if r.random() < 0.2:
            result = json.dumps({"temperature_c": t, "condition": w})
        if r.random() < 0.05:
            result, a = (
                json.dumps({"error": "unknown city"}),
                f"I could not get the weather in {c}: the tool reported an unknown city.",
            )
        else:
            a = f"The weather in {c}: {w}, {t} °C."
        why = [
            f"The user asks for the weather in {c}. I call get_weather.",
            "The tool has answered. I report the result.",
        ]
    else:
        x, y = r.randint(2, 9999), r.randint(2, 9999)
        op, word = r.choice([("*", "times"), ("+", "plus"), ("-", "minus")])
        res = {"*": x * y, "+": x + y, "-": x - y}[op]
        q = r.choice(
            [
                f"What is {x} {word} {y}?",
                f"Use the calculator: {x} {op} {y}",
                f"Calculate {x} {op} {y} with the calculator.",
                f"Compute {x} {word} {y} exactly.",
            ]
        )
        call = {"name": "calculator", "arguments": {"expression": f"{x} {op} {y}"}}
        result = json.dumps({"result": res})
        a = f"{x} {word} {y} is {res}."
        why = [
            f"I should compute {x} {op} {y} with the calculator.",
            "The calculator gave the result. I report it.",
        ]
    return [
        {"role": "user", "content": q},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": call}],
            "why": think(why[0], why[0], "That is the right tool."),
        },
        {"role": "tool", "content": result},
        {
            "role": "assistant",
            "content": a,
            "why": think(why[1], why[1], "A short sentence is enough."),
        },
    ]
