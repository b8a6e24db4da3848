"""The chat format in plain Python; must equal chat_template.jinja (train.py checks this on samples)."""
import json


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


def render(
    messages,
    tools=None,
    enable_thinking=False,
    reasoning_effort=None,
    preserve_thinking=False,
    add_generation_prompt=False,
):
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
    if tools:
        system += (
            "\n\n" if system else ""
        ) + 'Tools (call one with <tool_call>{"name": ..., "arguments": {...}}</tool_call>):'
        for tool in tools:
            system += "\n" + dumps(tool.get("function", tool))
    if enable_thinking and reasoning_effort:
        system += ("\n\n" if system else "") + "Reasoning effort: " + reasoning_effort
    out = [f"<|im_start|>system\n{system}<|im_end|>\n"] if system else []
    last_user = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    for i, m in enumerate(messages):
        role = m["role"]
        if role == "system" and i > 0:
            out.append(f"<|im_start|>system\n{m['content']}<|im_end|>\n")
        elif role == "user":
            out.append(f"<|im_start|>user\n{m['content']}<|im_end|>\n")
        elif role == "tool":
            out.append(
                f"<|im_start|>user\n<tool_response>{m['content']}</tool_response><|im_end|>\n"
            )
        elif role == "assistant":
            out.append("<|im_start|>assistant\n")
            if preserve_thinking or i > last_user:
                out.append("<think>\n" + (m.get("reasoning_content") or "") + "\n</think>\n\n")
            out.append(m.get("content") or "")
            for call in m.get("tool_calls") or []:
                fn = call.get("function", call)
                args = (
                    fn["arguments"] if isinstance(fn["arguments"], str) else dumps(fn["arguments"])
                )
                out.append(
                    f'<tool_call>{{"name": "{fn["name"]}", "arguments": {args}}}</tool_call>'
                )
            out.append("<|im_end|>\n")
    if add_generation_prompt:
        out.append(
            "<|im_start|>assistant\n<think>\n" + ("" if enable_thinking else "\n</think>\n\n")
        )
    return "".join(out)
