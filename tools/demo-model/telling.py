"""telling.py: turns clauses into sentences: joins those of one subject, chooses names, descriptions or pronouns."""
import re

STATES = "was felt lived always never needed wanted".split()  # verbs that nothing follows in time
PRONOUNS = {"he": ("his", "him", "himself"), "she": ("her", "her", "herself"), "it": ("its", "it", "itself")}


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def upper(text):
    return text[0].upper() + text[1:]


class Being:
    def __init__(self, name, kind, pronoun, can="", animal=False):
        self.name, self.kind, self.pronoun, self.can, self.animal = name, kind, pronoun, can, animal
        self.his, self.him, self.himself = PRONOUNS[pronoun]


class Teller:
    """Makes text of clauses. A clause is a being and what it did; `{his}`, `{him}`, `{he}` are the subject's."""

    def __init__(self, rng):
        self.rng, self.sentences, self.queue, self.last, self.others = rng, [], [], None, set()

    def pick(self, text):
        """Chooses among [a|b|c], from the inside out."""
        while "[" in text:
            text = re.sub(r"\[([^\[\]]*)\]", lambda m: self.rng.choice(m.group(1).split("|")), text)
        return text

    def refer(self, being):
        clear = self.last is being and being.pronoun not in self.others
        if clear and self.rng.random() < 0.75:
            return being.pronoun
        if being.kind and self.rng.random() < (0.25 if being.animal else 0.1):
            return "the " + being.kind
        return being.name

    def do(self, being, what, *others):
        if self.queue and self.queue[-1][0] is not being:
            self.flush()
        text = self.pick(what).replace("{he}", being.pronoun).replace("{his}", being.his)
        text = text.replace("{himself}", being.himself).replace("{him}", being.him)
        self.queue.append((being, text, others))
        if len(self.queue) == 3:
            self.flush()

    def flush(self):
        queue, self.queue = self.queue, []
        while queue:
            count = 1
            while count < len(queue) and self.rng.random() < 0.6 and " and " not in queue[count - 1][1]:
                count += 1
            self.clause(queue[:count])
            queue = queue[count:]

    def clause(self, parts):
        being, verbs = parts[0][0], [p[1] for p in parts]
        subject = self.refer(being)
        still = any(v.split()[0] in STATES for v in verbs)
        if len(verbs) == 1:
            text = verbs[0]
        elif len(verbs) == 2:
            text = verbs[0] + (" and " if still else self.rng.choice([" and ", " and ", " and then ", ", then "])) + verbs[1]
        else:
            text = "%s, %s%s%s" % (verbs[0], verbs[1], " and " if still else self.rng.choice([" and ", " and at last "]), verbs[2])
        opening = ""
        if self.last is being and not still and self.rng.random() < 0.22:
            opening = self.rng.choice(["Then ", "After that, ", "Soon ", "A little later, ", "Next, ", "So "])
        sentence = opening + subject + " " + text
        self.sentences.append(upper(sentence) + ".")
        self.last, self.others = being, {o.pronoun for p in parts for o in p[2]}

    def line(self, text, about=None):
        """A sentence of its own; about: the being that a pronoun would mean after it."""
        self.flush()
        self.sentences.append(upper(self.pick(text)))
        self.last, self.others = about, set()

    def speak(self, being, words, verb="said", to=None):
        self.flush()
        words = upper(self.pick(words))
        if verb == "asked" and not words.endswith("?"):
            verb = "said"
        who = self.refer(being)
        tail = "" if to is None or self.rng.random() < 0.6 else " to " + to.name
        if verb != "said":
            tail = ""
        pieces = re.split(r"(?<=[.!?]) ", words)
        quote = words[:-1] + "," if words.endswith(".") else words
        roll = self.rng.random()
        order = "%s %s" % (who, verb) if who == being.pronoun or roll < 0.6 else "%s %s" % (verb, who)
        if roll < 0.25:
            text = '%s %s%s, "%s"' % (upper(who), verb, tail, words)
        elif len(pieces) > 1 and roll < 0.7:
            first = pieces[0][:-1] + "," if pieces[0].endswith(".") else pieces[0]
            text = '"%s" %s%s. "%s"' % (first, order, tail, " ".join(pieces[1:]))
        else:
            text = '"%s" %s%s.' % (quote, order, tail)
        self.sentences.append(text)
        self.last, self.others = being, {to.pronoun} if to else set()

    def text(self):
        self.flush()
        return " ".join(self.sentences)
