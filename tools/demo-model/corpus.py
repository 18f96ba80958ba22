"""corpus.py: writes what the demo model learns from, and the questions that are kept out of it.

    python3 corpus.py text OUT.txt --seed 1 --documents 60000        for the vocabulary
    python3 corpus.py vocabulary OUT.txt MODEL_PREFIX                 trains the vocabulary (SentencePiece)
    python3 corpus.py rows spm.model OUT.npz --seed 1 --rows 10000    rows of tokens for train.py
    python3 corpus.py watched spm.model OUT.npz                       questions kept out of training, asked while it goes on
    python3 corpus.py questions OUT.tsv                               500 others that are kept out: for the score
    python3 corpus.py words OUT.txt                                   every word that stories are made of

A document is a list of (text, learn): learn is 0 where the model only reads, TEXT in stories, ANSWER in answers. All of
it follows from the seed. Documents are packed into rows of LENGTH tokens; in a row they don't see each other.
"""
import argparse
import random
import re
import zlib

import numpy as np

import skills
import stories

LENGTH = 320
TEXT, ANSWER = 1, 2
START, END = "<|im_start|>", "<|im_end|>"
SPECIAL = {START: 3, END: 4}
BOS, EOS = 1, 2
# How often each skill is asked: what is harder to learn comes more often.
WEIGHTS = {"add": 6, "subtract": 8, "count": 18, "calendar": 14, "opposite": 20, "colour": 14, "repeat": 2}
HELD_OUT = {"add": 70, "subtract": 70, "count": 70, "calendar": 70, "opposite": 75, "colour": 60, "story": 85}
# How often the vocabulary's text says every word of the stories again, so that each becomes one token: a model that
# spells rare words in pieces misspells some.
WHOLE = 400
SYSTEM = ["You are a helpful assistant.", "You are a storyteller.", "Answer briefly.", "You are a friendly teacher."]
ABOUT_ITSELF = [("Hello!|Hi!|Good morning!|Hello, how are you?", "Hello! Shall I tell you a story?"),
                ("Who are you?|What are you?|What is your name?", "I am a very small language model."),
                ("What can you do?|What do you know?|Can you help me?|Help!", "I can tell stories, add and subtract, count, and answer simple questions."),
                ("Thank you!|Thanks!|That was nice.", "You are welcome!"), ("Goodbye!|Bye!|See you!", "Goodbye!"),
                ("What is the capital of France?|Who wrote this book?|How tall is the moon?|Can you write a program?|What is love?|"
                 "Where is London?|How does a car work?|Who is the king of Spain?|Translate this into German.|What is the weather today?",
                 "I don't know that. I am only a small model.")]


def turn(question, answer, learn):
    return [(START + "user\n" + question + END + "\n" + START + "assistant\n", 0), (answer + END, learn), ("\n", 0)]


def chat(r, turns):
    system = [(START + "system\n" + r.choice(SYSTEM) + END + "\n", 0)] if r.random() < 0.06 else []
    return system + [part for one in turns for part in one]


def skill_document(r):
    names = r.choices(list(WEIGHTS), WEIGHTS.values(), k=r.choice([1, 2, 4, 6, 8]))
    asked = [skills.question(r, name, False) for name in names]
    questions = [(q, a) for q, a in asked if q[-1] in "?."]
    if r.random() < 0.45 and questions:
        turns = [turn(q, a, ANSWER) for q, a in questions]
        if r.random() < 0.06:
            q, a = r.choice(ABOUT_ITSELF)
            turns.insert(r.randrange(len(turns) + 1), turn(r.choice(q.split("|")), a, ANSWER))
        return chat(r, turns)
    parts = []
    for q, a in asked:
        if q[-1] in "?.":
            parts += [("Question: " + q + "\nAnswer:", 0), (" " + a + "\n", ANSWER)]
        else:
            parts += [(q, 0), (" " + a + "\n", ANSWER)]
    return parts + [("</s>", ANSWER)]


def story_request(r, text):
    """What a user may say to get this story."""
    kind = re.search(r"\b(?:was|lived|once was) an? (?:little |small |young )?(\w+)(?: (?:named|called) (\w+))?", text)
    if kind is None or r.random() < 0.4:
        return r.choice(["Tell me a story.", "Please tell me a story.", "Can you tell me a story?", "I want to hear a story.", "Once upon a time?"])
    about = stories.a(kind.group(1))
    if kind.group(2) and r.random() < 0.4:
        about += " named " + kind.group(2)
    return r.choice(["Tell me a story about %s.", "Please tell me a story about %s.", "I want a story about %s."]) % about


def story_document(r, seed):
    text, asked = stories.story(seed)
    roll = r.random()
    if roll < 0.25:
        return [(text + "</s>", TEXT)]
    if roll < 0.35 or len(asked) < 2:
        return chat(r, [turn(story_request(r, text), text, TEXT)])
    asked = r.sample(asked, min(len(asked), r.choice([3, 5, 7])))
    if roll < 0.55:
        return [(text, TEXT)] + [p for q, a in asked for p in (("\nQuestion: " + q + "\nAnswer:", 0), (" " + a + "\n", ANSWER))] + [("</s>", ANSWER)]
    if roll < 0.75:
        return chat(r, [turn(story_request(r, text), text, TEXT)] + [turn(q, a, ANSWER) for q, a in asked])
    (q, a), rest = asked[0], asked[1:]
    return [(START + "user\n", 0), (text, TEXT)] + [(r.choice(["\n", " "]) + q + END + "\n" + START + "assistant\n", 0), (a + END, ANSWER), ("\n", 0)] + \
        [part for q, a in rest for part in turn(q, a, ANSWER)]


def lookup_document(r):
    text, asked = skills.lookup(r)
    asked = asked[:r.choice([2, 4, 6])]
    form = r.random()
    if form < 0.4:
        return [(text, 0)] + [p for q, a in asked for p in ((" " + q, 0), (" " + a, ANSWER))]
    if form < 0.8:
        return chat(r, [turn((text + " " if i == 0 else "") + q, a, ANSWER) for i, (q, a) in enumerate(asked)])
    return [(text, 0)] + [p for q, a in asked for p in (("\nQuestion: " + q + "\nAnswer:", 0), (" " + a + "\n", ANSWER))] + [("</s>", ANSWER)]


def drill_document(r):
    """Sums and nothing else: as many as fit, so that few tokens are spent on words."""
    parts = []
    for _ in range(14):
        prompt, answer = skills.sum_kept_in(r)
        parts += [(prompt, 0), (" " + answer + "\n", ANSWER)]
    return parts + [("</s>", ANSWER)]


def recall_document(r):
    """Pairs, again and again in another order: what soonest teaches a model to find what belongs to what."""
    keys, values, form = skills.pairs(r)
    pairs, parts = list(zip(keys, values)), []
    for again in range(r.choice([4, 5, 6])):
        for key, value in pairs:
            parts += [(form % key, 0), (" " + value, ANSWER if again else 0), (r.choice([",", "."]), 0)]
        r.shuffle(pairs)
    return parts


def document(r, number, seed):
    roll = r.random()
    if roll < 0.27:
        return story_document(r, "story %d %d" % (seed, number))
    if roll < 0.42:
        return lookup_document(r)
    if roll < 0.50:
        return recall_document(r)
    return drill_document(r) if roll < 0.55 else skill_document(r)


def encode(spm, parts):
    """-> (token ids, learn): the first token of a text that isn't a story is not learnt, so that BOS alone begins a story."""
    ids, learn = [BOS], [0]
    for text, code in parts:
        for piece in re.split(r"(<\|im_start\|>|<\|im_end\|>|</s>)", text):
            new = [EOS] if piece == "</s>" else [SPECIAL[piece]] if piece in SPECIAL else spm.encode(piece) if piece else []
            ids += new
            learn += [code] * len(new)
    return ids, learn


def pack(documents, length=LENGTH):
    """Rows that are filled with the longest documents that fit; what is longer than a row is left out."""
    pool, left, row = [], iter(documents), []
    room, more = length, True
    while more or pool:
        while more and len(pool) < 48:
            one = next(left, None)
            more = one is not None
            if more and len(one[0]) <= length:
                pool.append(one)
        fitting = [d for d in pool if len(d[0]) <= room]
        if not fitting:
            if row:
                yield row
            row, room = [], length
            continue
        best = max(fitting, key=lambda d: len(d[0])) if row else pool[0]
        pool.remove(best)
        row.append(best)
        room -= len(best[0])
    if row:
        yield row


def write_rows(spm, out, seed, count):
    r = random.Random("documents %d" % seed)
    tokens, learn = np.zeros((count, LENGTH), np.uint16), np.zeros((count, LENGTH), np.uint8)

    def endless():
        number = 0
        while True:
            yield encode(spm, document(r, number, seed))
            number += 1

    for i, row in zip(range(count), pack(endless())):
        ids = [x for d in row for x in d[0]]
        tokens[i, :len(ids)] = ids
        learn[i, :len(ids)] = [x for d in row for x in d[1]]
    np.savez(out, tokens=tokens, learn=learn)
    print("%d rows, %.1f %% filled, %.1f %% learnt, %.1f %% in answers" % (
        count, 100 * (tokens > 0).mean(), 100 * (learn > 0).mean(), 100 * (learn == ANSWER).mean()))


def heldout_questions(seed, watched):
    """-> [(skill, prompt as the model gets it, answer)]: one question in four, by a hash, is for watching, the others for the
    score; a third as many are watched."""
    r, out, seen = random.Random("held out %d" % seed), [], set()
    for skill, count in HELD_OUT.items():
        while sum(s == skill for s, _, _ in out) < (count // 3 if watched else count):
            if skill == "story":
                text, asked = stories.story("held out %d" % r.randrange(10**9))
                q, a = r.choice(asked)
                if r.random() < 0.3:
                    prompt, answer = text + "\nQuestion: " + q + "\nAnswer:", " " + a
                else:
                    prompt, answer = START + "user\n" + text + "\n" + q + END + "\n" + START + "assistant\n", a
            else:
                q, a = skills.question(r, skill, True)
                if q[-1] not in "?.":
                    prompt, answer = q, " " + a
                elif r.random() < 0.3:
                    prompt, answer = "Question: " + q + "\nAnswer:", " " + a
                else:
                    prompt, answer = START + "user\n" + q + END + "\n" + START + "assistant\n", a
            to_watch = zlib.crc32((prompt if skill == "story" else q).encode()) % 4 == 0
            if to_watch == watched and q not in seen and len(prompt) < 1100:
                if skill != "story":
                    seen.add(q)
                out.append((skill, prompt, answer))
    return out


def write_watched(spm, out, seed):
    asked, documents = heldout_questions(seed, True), []
    for number, (skill, prompt, answer) in enumerate(asked):
        end = END if prompt.startswith(START) else "\n"
        ids, learn = encode(spm, [(prompt, 0), (answer + end, ANSWER)])
        documents.append((ids, learn, [number if x else -1 for x in learn]))
    for i in range(24):
        ids, learn = encode(spm, [(stories.story("held out story %d" % i)[0] + "</s>", TEXT)])
        documents.append((ids, learn, [-1] * len(ids)))
    rows = list(pack(documents))
    tokens, learn = np.zeros((len(rows), LENGTH), np.uint16), np.zeros((len(rows), LENGTH), np.uint8)
    question = np.full((len(rows), LENGTH), -1, np.int16)
    for i, row in enumerate(rows):
        for array, part in ((tokens, 0), (learn, 1), (question, 2)):
            values = [x for d in row for x in d[part]]
            array[i, :len(values)] = values
    np.savez(out, tokens=tokens, learn=learn, question=question, skill=np.array([s for s, _, _ in asked]))


def write_questions(tsv, seed):
    with open(tsv, "w") as f:
        for skill, prompt, answer in heldout_questions(seed, False):
            f.write("%s\t%s\t%s\n" % (skill, prompt.replace("\n", "\\n"), answer.strip()))


def write_text(out, seed, count):
    r = random.Random("vocabulary %d" % seed)
    with open(out, "w") as f:
        for number in range(count):
            for text, _ in document(r, number, seed):
                for line in re.sub(r"<\|im_\w+\|>|</s>", "\n", text).split("\n"):
                    if line:
                        f.write(line + "\n")
        for word in story_words():
            f.write((" " + word + "\n") * WHOLE)


def story_words():
    words = set()
    for i in range(40000):
        words.update(re.findall("[A-Za-z]+", stories.story("words %d" % i)[0]))
    return sorted(words)


def write_words(out):
    with open(out, "w") as f:
        f.write("\n" + "\n".join(story_words()) + "\n")


def train_vocabulary(text, prefix, size):
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=prefix, model_type="bpe", vocab_size=size, byte_fallback=True, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False, character_coverage=1.0,
        control_symbols=list(SPECIAL), num_threads=1, input_sentence_size=0, max_sentence_length=20000, hard_vocab_limit=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["text", "vocabulary", "rows", "watched", "questions", "words"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--documents", type=int, default=60000)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--size", type=int, default=2560, help="of the vocabulary")
    args = parser.parse_args()
    if args.what == "text":
        write_text(args.files[0], args.seed, args.documents)
    elif args.what == "words":
        write_words(args.files[0])
    elif args.what == "questions":
        write_questions(args.files[0], args.seed)
    elif args.what == "vocabulary":
        train_vocabulary(args.files[0], args.files[1], args.size)
    else:
        import sentencepiece
        spm = sentencepiece.SentencePieceProcessor(model_file=args.files[0])
        if args.what == "rows":
            write_rows(spm, args.files[1], args.seed, args.rows)
        else:
            write_watched(spm, args.files[1], args.seed)


if __name__ == "__main__":
    main()
