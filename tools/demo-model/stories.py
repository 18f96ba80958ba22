"""stories.py: short stories, told from a little world in which things happen.

A story is not a filled-in form. `Story` holds who is there, where they are, what they carry and what has become known;
plots are made of wants, ways to come by things (finding, asking, trading, paying, reaching), obstacles on the way and
helpers who can do what the hero can't. `Teller` turns what happens into sentences: it joins clauses of one subject,
chooses names, descriptions or pronouns by who was spoken of last, and varies the order of speech. While it runs, a
story notes questions about itself with their answers.
"""
import random

import world as w
from plots import PLOTS
from telling import Being, Teller, a, upper


class Uneven(random.Random):
    """Chooses what stands first in a list more often: once, a half, a third … as often. Were all equally likely, then the
    likeliest next word would hang on how a program rounds."""

    def choice(self, words):
        return self.choices(words, [1 / (i + 1) for i in range(len(words))])[0]

    def sample(self, words, count):
        left, out = list(words), []
        for _ in range(count):
            out.append(left.pop(left.index(self.choice(left))))
        return out

    def shuffle(self, words):
        words[:] = self.sample(words, len(words))

    def randint(self, first, last):
        return self.choice(range(first, last + 1))


class Story:
    def __init__(self, rng):
        self.rng, self.t = rng, Teller(rng)
        self.used, self.asked, self.place, self.pocket, self.friend, self.size = set(), [], None, None, None, 0
        self.animal = rng.random() < 0.4
        self.hero = self.child() if not self.animal else self.creature()
        self.trait = rng.choice(w.TRAITS)

    # ---- who ------------------------------------------------------------------------------------------------
    def fresh(self, words):
        words = [x for x in words if x not in self.used]
        word = self.rng.choice(words)
        self.used.add(word)
        return word

    def child(self):
        pronoun = self.rng.choice(["she", "he"])
        return Being(self.fresh(w.GIRLS if pronoun == "she" else w.BOYS), "girl" if pronoun == "she" else "boy", pronoun,
                     self.rng.choice(["quick", "climb", "clever"]))

    def creature(self, can=None):
        kind = self.fresh([k for k, c in w.ANIMALS.items() if can in (None, c)])
        pronoun = self.rng.choice(["she", "he"])
        return Being(self.fresh(w.ANIMAL_NAMES[pronoun]), kind, pronoun, w.ANIMALS[kind], True)

    def relative(self):
        if self.animal:
            return self.creature()
        word, pronoun = self.rng.choice(w.KIN)
        self.used.add(word)
        return Being(self.hero.his + " " + word, "", pronoun, "clever")

    def trader(self, word):
        if self.animal:
            return self.creature()
        self.used.add(word)
        return Being("the " + word, "", dict(w.TRADES)[word])

    def named(self, being):
        """How a being is first spoken of: "an owl named Hazel"."""
        if not being.kind:
            return being.name
        adjective = self.rng.choice(["", "", "old ", "young ", "little ", "friendly ", "wise "]) if being.animal else ""
        return self.t.pick("%s [named|called] %s" % (a(adjective + being.kind), being.name))

    def ask(self, question, answer):
        self.asked.append((question, upper(answer) + "."))

    # ---- beginnings -----------------------------------------------------------------------------------------
    def begin(self):
        t, h = self.t, self.hero
        size = self.rng.choice(["little ", "little ", "small ", "young ", ""])
        full = self.t.pick("%s [named|called] %s" % (a(size + h.kind), h.name))
        where = self.rng.choice(w.DENS if h.animal else w.HOMES)
        roll = self.rng.random()
        if roll < 0.4:
            t.line("Once upon a time, there was %s." % full, h)
            t.do(h, "lived " + where)
        elif roll < 0.6:
            t.line("Once upon a time, %s lived %s." % (full, where), h)
        elif roll < 0.75:
            t.line("There once was %s who lived %s." % (full, where), h)
        elif roll < 0.9:
            t.line("%s was %s who lived %s." % (h.name, a(size + h.kind), where), h)
        else:
            t.line("[In a land far away|Long ago|Not long ago], there lived %s." % full, h)
        if self.rng.random() < 0.6:
            t.do(h, self.t.pick("was [very|always|known to be] ") + self.trait)
            self.trait_told = True
        if self.rng.random() < 0.3:
            self.friend = self.child() if not h.animal and self.rng.random() < 0.6 else self.creature()
            t.line("{0}'s best friend was {1}.".format(h.name, self.named(self.friend)))
            self.ask("Who was %s's best friend?" % h.name, self.friend.name)
        if self.rng.random() < 0.35:
            self.pocket = self.rng.choice(list(w.POCKET))
            t.do(h, "[always carried|never left home without] %s" % w.POCKET[self.pocket])
            self.ask("What did %s always carry?" % h.name, w.POCKET[self.pocket])
        if h.animal:
            self.ask("What kind of animal was %s?" % h.name, a(h.kind))
        else:
            self.ask("Who is the story about?", a(h.kind) + " named " + h.name)

    def one_day(self):
        self.t.flush()
        day = self.rng.choice(w.DAYS)
        roll = self.rng.random()
        if roll < 0.2:
            self.ask("On which day did it happen?", "on " + day)
            return "On %s, " % day
        weather = self.rng.choice(["sunny", "windy", "rainy", "cold", "bright", "foggy", "warm", "quiet"])
        if roll < 0.6:
            time = self.rng.choice(["morning", "afternoon", "day"])
            self.ask("What was the weather like?", weather) if weather in ("sunny", "windy", "rainy", "foggy") else None
            return "One %s %s, " % (weather, time)
        return self.rng.choice(["One day, ", "One morning, ", "One afternoon, ", "One spring day, ", "One autumn day, "])

    # ---- moving and finding ---------------------------------------------------------------------------------
    def go(self, place, obstacle=0.2):
        t, h = self.t, self.hero
        self.place = place
        there, sights, _ = w.PLACES[place]
        t.do(h, "[went|walked|ran|hurried|set off|made {his} way] to the " + place)
        if self.rng.random() < obstacle and "obstacle" not in self.used:
            self.used.add("obstacle")
            self.overcome(self.rng.choice(list(w.OBSTACLES)))
        elif self.rng.random() < 0.3:
            t.do(h, "[saw|passed|stopped to look at|noticed] " + self.rng.choice(sights))
        return there

    def overcome(self, name):
        t, h = self.t, self.hero
        trouble, ways, alone = w.OBSTACLES[name]
        t.line("[But|Suddenly,|Halfway,] %s." % trouble.replace("{he}", h.pronoun).replace("{his}", h.his), h)
        if self.pocket in ways:
            t.do(h, "[remembered|thought of] %s" % w.POCKET[self.pocket].replace("a ", "the ", 1))
            t.do(h, ways[self.pocket])
            return
        cans = [c for c in ways if c in w.ANIMALS.values()]
        if self.rng.random() < 0.6:
            can = self.rng.choice(cans)
            helper = self.friend if self.friend and self.friend.can == can else self.creature(can)
            if helper is not self.friend:
                t.line("[Just then|Luckily|A moment later], %s came by." % self.named(helper), helper)
            t.speak(helper, "[Let me help you.|I can help. Wait here.|Don't worry. I know what to do.]", to=h)
            t.flush()
            text = ways[can].replace("{him}", h.him).replace("{helper_his}", helper.his)
            t.do(helper, text, h)
            t.do(h, "thanked " + helper.name, helper)
            self.ask("Who helped %s on the way?" % h.name, helper.name)
        else:
            t.do(h, alone)

    def come_by(self, noun, amount, place, owner, plural, depth=0):
        """The hero comes by something: it lies there, somebody gives it, wants something for it, or sells it."""
        t, h = self.t, self.hero
        them = "them" if plural else "it"
        there = self.go(place, 0.12)
        roll = self.rng.random()
        if roll < 0.4:
            spot = self.rng.choice(w.PLACES[place][2])
            t.do(h, "[found|discovered|spotted] %s %s" % (amount, spot))
            if self.rng.random() < 0.6:
                t.do(h, "[put %s into {his} bag|took %s along|picked %s up]" % (them, them, them))
            self.ask("Where did %s find the %s?" % (h.name, noun), spot)
            return
        giver = self.trader(owner)
        t.do(h, "met " + self.named(giver) if giver.kind else "[met|asked|found] " + giver.name, giver)
        t.speak(h, "[May I have|Could you give me|Do you have] %s?" % amount, "asked")
        if roll < 0.7 or depth:
            t.speak(giver, "[Of course. Take %s.|Here you are.|For you, with pleasure.|Yes, I have plenty.]" % them, to=h)
            self.ask("Who gave %s the %s?" % (h.name, noun), giver.name)
        elif roll < 0.85:
            coins = self.rng.randint(2, 12)
            t.speak(giver, "That will be %s coins." % w.NUMBERS[coins])
            t.do(h, "[paid|counted the coins|gave {him_other} the coins]".replace("{him_other}", giver.him))
            self.ask("How many coins did the %s cost?" % noun, w.NUMBERS[coins])
        else:
            job = self.rng.choice(["sweep the floor", "carry the water", "feed the hens", "sing me a song", "tell me a story",
                                   "water the flowers", "carry my basket", "count my sheep"])
            t.speak(giver, "[You shall|You can] have %s. But first, %s." % (them, job))
            t.do(h, "[agreed|nodded]")
            t.do(h, "did as {he} was told")
            self.ask("What did %s have to do for the %s?" % (h.name, noun), job.replace("my", giver.his).replace("me", giver.him))

    # ---- endings --------------------------------------------------------------------------------------------
    def end(self, mood=None, other=None):
        t, h = self.t, self.hero
        moods = ["happy", "proud", "glad", "tired but happy", "thankful"]
        mood = mood or self.rng.choice(moods)
        roll = self.rng.random()
        t.flush()
        if roll < 0.6:
            t.do(h, "[was|felt] " + mood)
            t.flush()
            self.ask("How did %s feel at the end?" % h.name, mood)
        if other is not None and self.rng.random() < 0.6:
            t.line("From that day on, %s and %s were [good friends|the best of friends|always together]." % (h.name, other.name))
        elif self.rng.random() < 0.75:
            t.do(h, "[went home as the sun went down|fell asleep with a smile|dreamed of it all night|told everyone at home about it|"
                    "sang all the way home|slept well that night|never forgot that day|had a big supper that evening]")
        t.flush()
        if self.rng.random() < 0.2:
            t.line("The end.")

    def tell(self):
        self.begin()
        self.rng.choice(PLOTS)(self)
        return self.t.text()


def story(seed):
    """-> (text, [(question, answer)])"""
    s = Story(Uneven(seed))
    return s.tell(), s.asked


if __name__ == "__main__":
    import sys
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        text, questions = story(seed)
        print(text + "\n" + "\n".join("   %s %s" % q for q in questions) + "\n")
