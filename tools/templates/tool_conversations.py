"""Sixty conversations with tools, for `replies`: one call and several, results, reasoning kept or dropped, a system message
in the middle, Unicode, nested, empty and awkward arguments, several turns."""
from conversations import TOKENS, assistant, system, tool, user

COUNT = 60


def function(name, properties, required=()):
    described = {key: {"description": f"The {key}.", **value} for key, value in properties.items()}
    return {"type": "function", "function": {
        "name": name, "description": f"Runs {name}.",
        "parameters": {"type": "object", "properties": described, "required": list(required)}}}


TOOLS = [
    function("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}}, ["city"]),
    function("write_file", {"path": {"type": "string"}, "text": {"type": "string"}}, ["path", "text"]),
    function("search", {"query": {"type": "string"}, "options": {"type": "object"}, "tags": {"type": "array", "items": {"type": "string"}},
                        "least": {"type": "number"}}, ["query"]),
    function("ping", {}),
]
TEXTS = ["I look.", "", "Einen Moment \u2026 \U0001F50E", "Two lines:\n- one\n- two"]
QUESTIONS = ["What is it, zq-one?", "Wo liegt K\u00f6ln, zq-two?", "\u4f60\u597d\uff0c zq-three?", "Say \"zq\" & <four>?"]
ANSWER = "By the zq-mole."
REASONS = [None, "I should use a tool.", "First this.\n\nThen that.", "\u0414\u0430: 1 < 2 & \"x\"."]
ARGUMENTS = [
    ("get_weather", {"city": "Bonn"}),
    ("get_weather", {"city": "K\u00f6ln \"am Rhein\"", "days": 3, "metric": True}),
    ("write_file", {"path": "/tmp/a b.c", "text": "int main(void)\n{\n    return 1 < 2 && 3 > 2;\n}\n\n// \\n \u00e9 \U0001F600"}),
    ("ping", {}),
    ("search", {"query": "42", "tags": ["a", "b c", "d\"e"], "least": 0.5}),
    ("search", {"query": "true", "options": {"deep": {"k": [1, 2.5, None, False]}, "\u00fc": "\u00df"}, "least": -3}),
    ("write_file", {"path": "x", "text": "{\"a\": [1, 2]}"}),
    ("get_weather", {"city": "it's {here}, [there]", "days": 0, "metric": False}),
    ("search", {"query": "", "options": {}, "tags": []}),
    ("write_file", {"path": "tags.html", "text": "<b>bold</b> <parameter=x> </tool> a=b, c: d"}),
]


def calls_of(number, count, first_id):
    chosen = [ARGUMENTS[(number + 3 * k) % len(ARGUMENTS)] for k in range(count)]
    return [{"id": f"call{first_id + k:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for k, (name, arguments) in enumerate(chosen)]


def turn(number, count, first_id):
    """A question and what the assistant says and calls."""
    message = assistant(TEXTS[number // 3 % 4], tool_calls=calls_of(number, count, first_id))
    if REASONS[number // 2 % 4]:
        message["reasoning_content"] = REASONS[number // 2 % 4]
    return [user(QUESTIONS[number % 4]), message]


def results_of(message):
    return [tool(int(call["id"][4:]), call["function"]["name"], "{\"result\": \"zq \u00e4\"}" if i % 2 else "Done, <ok>.")
            for i, call in enumerate(message["tool_calls"])]


def conversation(number):
    """Messages before the last call, that message, and those after it; and variables."""
    before, count = [], 1 + number % 3
    if number % 2:
        before.append(system("Use tools, \u00fcberall."))
    if number % 4 > 1:
        earlier = turn(number + 5, 1 + number % 2, 1)
        before += earlier + results_of(earlier[-1]) + [assistant("It is done.")]
    if number % 10 == 7:
        before.append(system("Be brief from now on."))
    question, call = turn(number, count, 11)
    before.append(question)
    after = results_of(call)
    if number % 5 < 3:
        after += [assistant("So it is."), user("Thanks, zq.")]
    variables = [{}, {"enable_thinking": False, "thinking": False}, {"enable_thinking": True, "thinking": True}, {"clear_thinking": False,
                 "preserve_thinking": True}][number // 4 % 4]
    return before, call, after, variables


def variables_of(messages, more, prompts):
    return {"messages": messages, "tools": TOOLS, "documents": None, "add_generation_prompt": prompts, **TOKENS, **more}


def cases():
    """For each conversation: all of it, and up to the call."""
    for number in range(COUNT):
        before, call, after, more = conversation(number)
        yield {"name": f"{number}", "variables": variables_of(before + [call] + after, more, True), "call": None}
        yield {"name": f"{number} to the call", "variables": variables_of(before + [call], more, False), "call": call,
               "prompt": variables_of(before, more, True),
               "answer": variables_of(before + [assistant(ANSWER)], more, False)}
