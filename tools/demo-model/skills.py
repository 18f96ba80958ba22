"""skills.py: questions that have one right answer, in many wordings.

Each function returns (key, prompt, answer). A prompt that ends in "?" or "." is a question, to be asked in a chat or as
"Question: … Answer: …"; any other is the beginning of a sentence that the answer ends. The key names what is asked
(the two numbers; the wording and the word); `held_out` keeps one key in ten out of training, more
of the skills that have few.
"""
import zlib

import world as w

OPPOSITES = """big small|long short|hot cold|fast slow|old new|happy sad|light dark|high low|open closed|full empty|wet dry|
hard soft|loud quiet|strong weak|early late|rich poor|thick thin|clean dirty|near far|deep shallow|wide narrow|
sweet sour|smooth rough|brave fearful|good bad|right wrong|first last|up down|in out|day night|summer winter|
morning evening|win lose|love hate|give take|push pull|buy sell|start stop|come go|laugh cry|ask answer|find hide|remember forget|
float sink|rise fall|arrive leave|always never|more less|over under|before after|inside outside|friend enemy|war peace|
sharp blunt|simple difficult|awake asleep|alive dead|fresh stale|tight loose|true false|yes no|top bottom|
front back|north south|east west|black white|lucky unlucky|kind unkind|polite rude|lazy busy|tidy untidy|safe dangerous"""
OPPOSITE = {}
for pair in OPPOSITES.replace("\n", "").split("|"):
    one, two = pair.split()
    OPPOSITE[one], OPPOSITE[two] = two, one

COLOURS = {
    "yellow": "a banana|a lemon|the sun|a canary|a sunflower|butter|straw|a chick", "red": "a tomato|blood|a ripe strawberry|a cherry|a fire engine|a poppy",
    "green": "grass|a frog|a cucumber|a leaf|a pea|spinach|a pine tree|moss", "white": "snow|milk|salt|a swan|flour|a cloud|chalk|a snowman",
    "black": "coal|a crow|the night sky|ink|a panther|tar", "brown": "chocolate|a bear|bark|coffee|a chestnut|soil|a walnut",
    "orange": "a carrot|a pumpkin|an orange|a goldfish|a tiger", "blue": "the sky|the sea|a blueberry|a bluebird|a cornflower",
    "grey": "an elephant|a mouse|ash|a rain cloud|a dolphin|lead", "pink": "a pig|a flamingo|a piglet|a cherry blossom",
    "purple": "a plum|a violet|lavender|an aubergine", "golden": "honey|a crown|a coin of gold"}
COLOUR_OF = {thing: colour for colour, things in COLOURS.items() for thing in things.split("|")}

ADD = ["What is {a} plus {b}?", "What is {a} + {b}?", "How much is {a} + {b}?", "How much is {a} plus {b}?", "Add {a} and {b}.",
       "What do you get when you add {a} and {b}?", "{a} + {b} =", "What is the sum of {a} and {b}?",
       "{name} has {a} {things} and gets {b} more. How many {things} are there now?",
       "There are {a} {things} in one box and {b} in another. How many are there in all?"]
SUBTRACT = ["What is {a} minus {b}?", "What is {a} - {b}?", "How much is {a} - {b}?", "How much is {a} minus {b}?", "Take {b} from {a}.",
            "What is left when you take {b} from {a}?", "{a} - {b} =", "What is the difference between {a} and {b}?",
            "{name} has {a} {things} and gives {b} away. How many {things} are left?",
            "There were {a} {things} on the table. Now {b} are gone. How many are left?"]
THINGS = "apples nuts marbles shells books eggs plums buttons coins stones flowers cakes pears stars kites".split()
COUNTED = "cat dog star tree apple bird fish cup hat ball book nut bee cow egg shoe frog leaf drum key".split()
NEXT = ["What comes after {x}?", "Which {kind} comes after {x}?", "What {kind} follows {x}?", "Name the {kind} after {x}.", "After {x} comes",
        "The {kind} after {x} is", "If this {kind} is {x}, what is the next one?", "What is the {kind} right after {x}?"]
PREVIOUS = ["What comes before {x}?", "Which {kind} comes before {x}?", "What {kind} is right before {x}?", "Name the {kind} before {x}.",
            "Before {x} comes", "The {kind} before {x} is", "If this {kind} is {x}, what was the last one?"]
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
OPPOSED = ["What is the opposite of {x}?", "Name the opposite of {x}.", "The opposite of {x} is", "What is the opposite of the word {x}?",
           "Tell me the opposite of {x}.", "Which word means the opposite of {x}?", "Not {x} but", "If it is not {x}, what is it?",
           "Do you know the opposite of {x}?", "Give me a word that is the opposite of {x}."]
COLOURED = ["What colour is {x}?", "Which colour does {x} have?", "The colour of {x} is", "Tell me the colour of {x}.", "What is the colour of {x}?",
            "{x} is usually", "Do you know what colour {x} is?", "Name the colour of {x}.", "In which colour would you paint {x}?"]


def held_out(key):
    return zlib.crc32(key.encode()) % 10 < {"calendar": 3, "colour": 2}.get(key.split()[0], 1)


def add(r):
    a = r.randint(0, 99)
    b = r.randint(0, 99 - a)
    if r.random() < 0.5:
        a, b = b, a
    prompt = r.choice(ADD).format(a=a, b=b, name=r.choice(w.GIRLS + w.BOYS), things=r.choice(THINGS))
    return "add %d %d" % (min(a, b), max(a, b)), prompt, str(a + b) if prompt[-1] == "=" else "%d + %d = %d." % (a, b, a + b)


def subtract(r):
    a = max(r.randint(0, 99), r.randint(0, 99))
    b = r.randint(0, a)
    prompt = r.choice(SUBTRACT).format(a=a, b=b, name=r.choice(w.GIRLS + w.BOYS), things=r.choice(THINGS))
    return "subtract %d %d" % (a, b), prompt, str(a - b) if prompt[-1] == "=" else "%d - %d = %d." % (a, b, a - b)


def count(r):
    roll = r.random()
    if roll < 0.45:
        a = r.choice([r.randint(0, 12), r.randint(0, 89)])
        b = min(99, a + r.randint(2, 9))
        if r.random() < 0.35:
            a, b = b, a
        step = 1 if a < b else -1
        prompt = r.choice(["Count from %d to %d.", "Please count from %d to %d.", "Can you count from %d to %d?"] +
                          (["Count backwards from %d to %d."] * 2 if step < 0 else ["Count up from %d to %d."])) % (a, b)
        return "count %d %d" % (a, b), prompt, ", ".join(map(str, range(a, b + step, step))) + "."
    if roll < 0.7:
        x = r.randint(1, 98)
        if r.random() < 0.5:
            prompt = r.choice(["What number comes after %d?", "Which number follows %d?", "The number after %d is", "What is the next number after %d?"]) % x
            return "number after %d" % x, prompt, "%d." % (x + 1)
        prompt = r.choice(["What number comes before %d?", "Which number is right before %d?", "The number before %d is"]) % x
        return "number before %d" % x, prompt, "%d." % (x - 1)
    n, thing = r.randint(1, 9), r.choice(COUNTED)
    prompt = r.choice(["How many words are there: %s?", "Count the words: %s.", "How many times do I say it: %s?"]) % ", ".join([thing] * n)
    return "items %s %d" % (thing, n), prompt, "%d." % n


def calendar(r):
    names, kind = (w.DAYS, "day") if r.random() < 0.45 else (w.MONTHS, "month")
    i, roll = r.randrange(len(names)), r.random()
    if roll < 0.36:
        form, answer = r.choice(NEXT), names[(i + 1) % len(names)]
    elif roll < 0.72:
        form, answer = r.choice(PREVIOUS), names[i - 1]
    elif roll < 0.86:
        form, answer = r.choice(["Which {kind} is the {n} of the {all}?", "What is the {n} {kind} of the {all}?", "Name the {n} {kind} of the {all}."]), names[i]
    elif kind == "day":
        form, answer = r.choice(["Today is {x}. Which day is tomorrow?", "If today is {x}, what day is tomorrow?", "Today is {x}, so tomorrow is"]), names[(i + 1) % 7]
    else:
        form, answer = r.choice(["It was {x}. A month later it was", "If it is {x} now, which month is next?", "It is {x}. Which month comes next?"]), names[(i + 1) % 12]
    prompt = form.format(x=names[i], kind=kind, n=ORDINALS[i], all="week" if kind == "day" else "year")
    return "calendar " + prompt, prompt, answer + "."


def opposite(r):
    word = r.choice(list(OPPOSITE))
    prompt = r.choice(OPPOSED).format(x=word)
    return "opposite " + prompt, prompt, OPPOSITE[word] + "."


def colour(r):
    thing = r.choice(list(COLOUR_OF))
    prompt = r.choice(COLOURED).format(x=thing)
    return "colour " + prompt, prompt[0].upper() + prompt[1:], COLOUR_OF[thing] + "."


def repeat(r):
    """Words to say again: what teaches a model soonest to look back."""
    words = [r.choice(COUNTED + THINGS + list(w.TREASURES) + list(w.ANIMALS) + w.GIRLS + w.COLOURS) for _ in range(r.randint(2, 9))]
    prompt = r.choice(["Repeat: %s.", "Say this again: %s.", "Repeat after me: %s."]) % " ".join(words)
    return "repeat " + prompt, prompt, " ".join(words) + "."


def lookup(r):
    """-> (some sentences, [(question, answer)]) about who has what, in which colour, and where."""
    count = r.choice([1, 2, 2, 3, 3, 4])
    names, things = r.sample(w.GIRLS + w.BOYS, count), r.sample(list(w.TREASURES), count)
    kinds, animals = r.sample(list(w.ANIMALS), count), r.sample(w.ANIMAL_NAMES["she"] + w.ANIMAL_NAMES["he"], count)
    said, asked = [], []
    for name, thing, kind, animal in zip(names, things, kinds, animals):
        colour, place = r.choice(w.TREASURES[thing].split()), w.PLACES[r.choice(list(w.PLACES))]
        it, where = ("an " if colour[0] in "aeiou" else "a ") + colour + " " + thing, r.choice([place[0]] + place[2])
        roll = r.random()
        if roll < 0.4:
            said.append("%s %s %s." % (name, r.choice(["has", "had", "always carried"]), it))
            asked += [("Who has the %s?" % thing, name), ("What does %s have?" % name, it), ("What colour is the %s?" % thing, colour)]
        elif roll < 0.7:
            said.append("%s %s %s %s." % (name, r.choice(["found", "saw", "lost"]), it, where))
            asked += [("Where was the %s?" % thing, where), ("What colour was the %s?" % thing, colour), ("Whose story is about %s?" % it, name)]
        else:
            article = "an " if kind[0] in "aeiou" else "a "
            said.append("%s %s%s %s." % (r.choice(["There was", "Then came"]), article, kind, r.choice(["named ", "called "]) + animal))
            asked += [("What kind of animal was %s?" % animal, article + kind), ("What was the name of the %s?" % kind, animal)]
    r.shuffle(asked)
    return " ".join(said), [(q, a[0].upper() + a[1:] + ".") for q, a in asked]


SKILLS = {"add": add, "subtract": subtract, "count": count, "calendar": calendar, "opposite": opposite, "colour": colour,
          "repeat": repeat}


def question(r, skill, kept_out):
    """-> (prompt, answer), of those kept out of training or of the others."""
    while True:
        key, prompt, answer = SKILLS[skill](r)
        if held_out(key) == kept_out:
            return prompt, answer if prompt[-1] not in "?." else answer[0].upper() + answer[1:]


def sum_kept_in(r):
    """-> ("27 + 38 =", "65"), of those that training may see."""
    while True:
        key, prompt, answer = r.choice([add, subtract])(r)
        if not held_out(key):
            return (prompt, answer) if prompt[-1] == "=" else (answer[:answer.index("=") + 1], answer[answer.index("=") + 2:-1])


def pairs(r):
    """-> (keys, values, how a key is said): some of each, no key twice."""
    names, nouns = w.GIRLS + w.BOYS, list(w.TREASURES) + list(w.ANIMALS)
    keys, values, form = r.choice([
        (nouns, w.COLOURS, " the %s is"), (nouns, w.COLOURS, " What colour is the %s?"), (nouns, w.COLOURS, " %s"),
        (names, ["a " + n for n in w.TREASURES if n != "umbrella"], " %s has"), (nouns, names, " Who has the %s?"), (nouns, names, " %s"),
        (w.ANIMAL_NAMES["she"] + w.ANIMAL_NAMES["he"], ["a " + n for n in w.ANIMALS if n[0] not in "aeiou"], " What kind of animal was %s?"),
        (nouns, [p for place in w.PLACES.values() for p in [place[0]] + place[2]], " the %s was"), (names, names, " the best friend of %s was"),
        (nouns, [str(n) for n in range(100)], " %s")])
    count = r.randint(2, 6)
    return r.sample(keys, count), r.sample(values, count), form
