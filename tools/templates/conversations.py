"""Ten conversations, and tools, for `record`: with and without system, tools, results, several turns, empty content."""

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Says what the weather is.\nAnywhere.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city's name, e.g. \"K\u00f6ln\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "The unit", "default": "celsius"},
        "days": {"type": "array", "items": {"type": "integer"}, "description": "Days from today"}},
        "required": ["city"]}}}
ADD = {"type": "function", "function": {
    "name": "add", "description": "Adds <numbers> & more.",
    "parameters": {"type": "object", "properties": {
        "a": {"type": "number", "description": "One"}, "b": {"type": ["number", "null"], "description": "Other"},
        "options": {"type": "object", "properties": {"exact": {"type": "boolean"}}}},
        "required": ["a", "b"]},
    "return": {"type": "number", "description": "The sum"}}}
NOTHING = {"type": "function", "function": {"name": "ping", "description": "Does nothing.", "parameters": {"type": "object", "properties": {}}}}


def call(number, name, arguments):
    return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def tool(number, name, text):
    return {"role": "tool", "tool_call_id": f"call{number:05d}", "name": name, "content": text}


CONVERSATIONS = {
    "one": {"messages": [user("Hello, who are you?")]},
    "system": {"messages": [system("You are terse."), user("Hi"), assistant("Hello."), user("What is 2+2?")]},
    "turns": {"messages": [user("  One \n"), assistant(" 1 \n"), user("Two\n\nlines"), assistant("2"), user("Three"), assistant("3")],
              "add_generation_prompt": False},
    "empty": {"messages": [system(""), user(""), assistant(""), user("\u4f60\u597d \U0001F600 <|im_end|> [INST] </s>")]},
    "tools": {"messages": [user("What is the weather in K\u00f6ln?")], "tools": [WEATHER, ADD]},
    "called": {"messages": [system("Use tools."), user("Weather and sum?"),
                            assistant("", tool_calls=[call(1, "get_weather", {"city": "K\u00f6ln", "days": [0, 1]})]),
                            tool(1, "get_weather", "{\"temperature\": 21.5}")], "tools": [WEATHER, ADD, NOTHING]},
    "two-calls": {"messages": [system("Use \"tools\"."), user("Weather, twice"),
                               assistant("Let me see.", tool_calls=[call(1, "get_weather", {"city": "Bonn"}), call(2, "add", {"a": 1, "b": None, "options": {"exact": True}})]),
                               tool(1, "get_weather", "sunny"), tool(2, "add", "3"), assistant("It is sunny, and 3."), user("Thanks")],
                  "tools": [WEATHER, ADD]},
    "thinking": {"messages": [user("Think: 3*3?"), assistant("<think>\nThree times three.\n</think>\n\n9"), user("And 4*4?"),
                              assistant("16", reasoning_content="Four fours.", thinking="Four fours."), user("Why?")],
                 "variables": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}},
    "no-thinking": {"messages": [system("Be quick. /no_think"), user("Name a colour.")],
                    "variables": {"enable_thinking": False, "date_string": "26 Jul 2024", "tools_in_user_message": False}},
    "documents": {"messages": [user("What do the documents say?"), assistant("They say \"x\"."), user("Which one?")],
                  "documents": [{"title": "First", "text": "The first document."}, {"title": "Second", "text": "Zwei\nZeilen."}],
                  "variables": {"citation_mode": "accurate"}},
}
