"""plots.py: what happens in the stories: a want, what stands against it, and how it ends."""
import re

import world as w
from telling import Being, a, upper


def companion(s):
    """Somebody to do things with: the friend, if there is one, else a new acquaintance."""
    if s.friend:
        return s.friend
    other = s.child() if not s.animal and s.rng.random() < 0.6 else s.creature()
    s.friend = other
    return other


def met(s, being):
    """A being by its name where it is known, else presented."""
    return being.name if being.name in s.t.text() else s.named(being)


def plot_make(s):
    t, h = s.t, s.hero
    product = s.rng.choice(list(w.PRODUCTS))
    materials, how, use = w.PRODUCTS[product]
    for_whom = s.relative() if s.rng.random() < 0.6 else None
    t.line(s.one_day() + "%s wanted to make %s%s." % (h.name, a(product) if product != "bread" else product,
                                                   " for " + met(s, for_whom) if for_whom else ""), h)
    s.ask("What did %s want to make?" % h.name, a(product) if product != "bread" else product)
    needed = s.rng.sample(materials.split(), 2)
    names = [w.MATERIALS[m][0] for m in needed]
    t.speak(h, "I need %s and %s." % (names[0], names[1]))
    for m in needed:
        amount, place, owner, plural = w.MATERIALS[m]
        s.come_by(m, amount, place, owner, plural)
    t.do(h, "went home")
    if s.rng.random() < 0.3:
        other = companion(s)
        t.line("[Just then,|At the door,] %s [came|appeared]." % met(s, other), other)
        t.speak(other, "[May I help you?|May I watch?|Can I join you?]", "asked")
        t.do(h, "said yes")
    t.do(h, how)
    done = {"eat": "The %s [smelled wonderful|tasted better than any other]", "play": "The %s was [ready at last|even better than {0} had hoped]",
            "wear": "The %s was [very pretty|the prettiest of all]", "home": "The %s was [strong and cosy|just right]"}[use] % product
    t.line(done.format(h.pronoun) + ".", h)
    if for_whom:
        t.do(for_whom, {"eat": "ate two pieces and smiled", "play": "[laughed with joy|clapped]", "wear": "[blushed|smiled] and put it by the window",
                        "home": "[was delighted|thanked %s many times]" % h.name}[use], h)
        s.ask("For whom did %s make the %s?" % (h.name, product), for_whom.name)
    elif use == "eat" and s.rng.random() < 0.6:
        other = companion(s)
        t.do(h, "shared it with " + met(s, other), other)
        s.ask("Who got some of the %s?" % product, other.name)
    s.end(other=s.friend)


def plot_lost(s):
    t, h = s.t, s.hero
    thing = s.rng.choice(list(w.TREASURES))
    colour = s.rng.choice(w.TREASURES[thing].split())
    t.line("%s had %s [that {0} loved|from {1} grandmother|and took it everywhere].".replace("{0}", h.pronoun).replace("{1}", h.his)
           % (h.name, a(colour + " " + thing)), h)
    t.line(s.one_day() + "the %s was [gone|missing|nowhere to be seen]." % thing)
    s.ask("What did %s lose?" % h.name, a(colour + " " + thing))
    s.ask("What colour was the %s?" % thing, colour)
    t.speak(h, "[Where is my %s?|Oh no, my %s!|Who has seen my %s?]" % (thing, thing, thing), s.rng.choice(["cried", "said", "asked"]))
    places = s.rng.sample(list(w.PLACES), 3)
    for place in places[:s.rng.choice([1, 0, 2])]:
        s.go(place)
        t.do(h, "looked %s" % s.rng.choice(w.PLACES[place][2]))
        t.flush()
        if s.rng.random() < 0.6:
            seen = s.rng.choice(list(w.TREASURES) + ["coin", "shoe", "sock"])
            t.line("[But there was only|There {0} found nothing but] %s.".replace("{0}", h.pronoun) % a(seen) if seen != thing else "Nothing was there.", h)
        else:
            t.line("[But it was not there.|Nothing.|The %s was not there.]" % thing, h)
    place = places[2]
    there, _, spots = w.PLACES[place]
    spot = s.rng.choice(spots)
    roll = s.rng.random()
    if roll < 0.45:
        s.go(place)
        t.do(h, "[saw something %s|noticed something %s] %s" % (colour, colour, spot))
        t.line("It was the %s!" % thing, h)
    elif roll < 0.75:
        helper = companion(s)
        t.line("[Then|At last,] %s came along." % met(s, helper), helper)
        t.speak(helper, "[I have seen it %s.|Look %s. There it must be.|Have you looked %s?]" % (there, there, there), to=h)
        s.go(place, 0.1)
        t.do(h, "[found|discovered] the %s %s" % (thing, spot))
        s.ask("Who told %s where to look?" % h.name, helper.name)
    else:
        thief = s.creature()
        s.go(place)
        t.do(h, "met " + s.named(thief), thief)
        t.line("The %s was playing with the %s." % (thief.kind, thing), thief)
        t.speak(h, "[That is my %s.|Please give me back my %s.|Where did you get the %s?]" % (thing, thing, thing))
        t.speak(thief, "[I am sorry.|I did not know. I only wanted to play.] I found it %s." % spot)
        t.do(thief, "gave it back", h)
        s.ask("Who had the %s?" % thing, thief.name)
    s.ask("Where was the %s?" % thing, spot)
    s.ask("Where did %s find the %s?" % (h.name, thing), there) if roll < 0.75 else None
    s.end(other=s.friend)


def plot_high(s):
    t, h = s.t, s.hero
    thing = s.rng.choice(list(w.HIGH))
    where = w.HIGH[thing]
    colour = s.rng.choice(["red", "yellow", "green"] if thing in ("apple", "balloon") else w.TREASURES[thing].split())
    t.line(s.one_day() + "%s [saw|found] %s %s." % (h.name, a(colour + " " + thing), where), h)
    s.ask("Where was the %s?" % thing, where)
    s.ask("What colour was the %s?" % thing, colour)
    t.speak(h, "[I want it so much.|How can I reach it?|It is too high for me.]")
    tries = ["jumped as high as {he} could", "threw a stone at it", "stood on a box", "shook with all {his} strength", "built a tower of three stones",
             "took a long stick", "blew as hard as {he} could"]
    s.rng.shuffle(tries)
    count = s.rng.choice([2, 1, 3])
    for one in tries[:count]:
        t.do(h, one)
        t.flush()
        t.line("[But it did not help.|But the %s did not move.|It was not enough.|That was no use.]" % thing, h)
    helper = s.creature(s.rng.choice(["fly", "climb"])) if s.rng.random() < 0.7 else Being("the tall farmer", "", "he", "tall")
    t.line("[Then|Just then] %s came by." % met(s, helper), helper)
    t.speak(h, "[Can you help me?|Please help me.|Could you get the %s for me?]" % thing, "asked")
    t.do(helper, {"fly": "flew up", "climb": "climbed up", "tall": "stretched out a long arm"}[helper.can])
    t.do(helper, "[brought down the %s|let the %s fall into the grass]" % (thing, thing), h)
    s.ask("Who got the %s down?" % thing, helper.name)
    t.speak(h, "[Thank you!|You are wonderful!|How kind of you!]")
    if s.rng.random() < 0.6:
        t.do(h, "[shared {his} lunch with|sang a song for|gave a nut to] " + helper.name, helper)
    s.end(other=helper if helper.kind else None)


def plot_visit(s):
    t, h = s.t, s.hero
    goal = s.relative()
    place = s.rng.choice(list(w.PLACES))
    gift = s.rng.choice(list(w.MATERIALS))
    amount = w.MATERIALS[gift][0]
    t.line(s.one_day() + "%s set out to visit %s, who lived near the %s." % (h.name, met(s, goal), place), h)
    t.do(h, "took %s [as a gift|along]" % amount)
    s.ask("Whom did %s want to visit?" % h.name, goal.name)
    s.ask("What did %s take along?" % h.name, amount)
    s.used.add("obstacle")
    s.overcome(s.rng.choice(list(w.OBSTACLES)))
    if s.rng.random() < 0.6:
        other = s.creature()
        t.line("[A little further on|Behind the next bend], %s sat by the path." % s.named(other), other)
        t.speak(other, "[I am so hungry.|I am so tired.|I have nobody to talk to.]")
        t.do(h, "[gave {him_o} half of {his} bread|sat down beside {him_o}|stayed for a while]".replace("{him_o}", other.him), other)
        s.ask("Who sat by the path?", other.name)
    t.do(h, "[reached the %s at last|came to the %s]" % (place, place))
    t.do(goal, "[opened the door|was already waiting|stood in front of the house]")
    t.speak(goal, "[How good to see you!|You came all this way!|Come in and warm yourself.]")
    t.do(h, "gave %s the gift" % goal.him, goal)
    s.end(other=goal if goal.kind else None)


def plot_fear(s):
    t, h = s.t, s.hero
    name = s.rng.choice(list(w.FEARS))
    fear, steps, lesson = w.FEARS[name]
    t.flush()
    t.line("But %s was afraid of %s." % (h.name, fear), h)
    s.ask("What was %s afraid of?" % h.name, fear)
    other = s.friend or (s.relative() if s.rng.random() < 0.6 else companion(s))
    t.line(s.one_day() + "%s [saw it|noticed it|asked about it]." % met(s, other), other)
    t.speak(other, "[Everyone is afraid of something.|I was afraid once, too.|Being brave means trying anyway.] [Let us try it together.|Take one small step.|I will stay with you.]", to=h)
    s.ask("Who encouraged %s?" % h.name, other.name)
    count = s.rng.choice([1, 2, 3])
    for step in steps[:count]:
        t.do(h, step)
    t.flush()
    if s.rng.random() < 0.6:
        t.line("{0}'s heart beat fast.".format(h.name), h)
        t.do(h, "[took a deep breath|closed {his} eyes|did not run away]")
    t.line("[In the end,|After a while,] %s [learned|understood|knew] that %s." % (h.name, lesson), h)
    s.end(s.rng.choice(["brave", "proud", "happy"]))


def plot_quarrel(s):
    t, h = s.t, s.hero
    other = companion(s)
    thing = s.rng.choice(list(w.TREASURES))
    colour = s.rng.choice(w.TREASURES[thing].split())
    place = s.rng.choice(list(w.PLACES))
    there = w.PLACES[place][0]
    t.line(s.one_day() + "%s and %s found %s %s." % (h.name, met(s, other), a(colour + " " + thing), there))
    s.ask("What did they find?", a(colour + " " + thing))
    s.ask("Where did they find the %s?" % thing, there)
    s.ask("What colour was the %s?" % thing, colour)
    t.speak(h, "[It is mine.|I saw it first.|Give it to me.]")
    t.speak(other, "[No, it is mine.|No, I saw it first.|Never!]", s.rng.choice(["cried", "said"]))
    t.line("[They pulled and pulled.|They shouted at each other.|Neither of them would let go.]")
    roll = s.rng.random()
    if roll < 0.5:
        t.line("Then the %s [fell into the mud|broke in two|flew out of their hands]." % thing)
        t.line("[Both of them were silent.|They looked at each other.|Nobody said a word.]")
        first = s.rng.choice([h, other])
        t.speak(first, "[I am sorry.|That was foolish of us.|I did not want that.]")
        s.ask("Who was the first to say sorry?" , first.name)
        t.line("Together, they [cleaned|mended|looked after] the %s." % thing)
    else:
        judge = s.relative() if s.rng.random() < 0.6 else s.creature()
        t.line("%s [heard the noise|came to see what was wrong]." % upper(met(s, judge)), judge)
        t.speak(judge, "[Why don't you take turns?|You can have it in the morning, and you in the evening.|Things are more fun when they are shared.]")
        s.ask("Who gave them advice?", judge.name)
        t.line("[So they took turns.|That was a good idea.|They thought about it and nodded.]")
    t.line("%s and %s played [until it was dark|until supper|all afternoon]." % (h.name, other.name))
    s.end(other=other)


def plot_needy(s):
    t, h = s.t, s.hero
    creature = s.rng.choice(list(w.NEEDS))
    trouble, material, cure = w.NEEDS[creature]
    noun = creature[2:]
    place = s.rng.choice(list(w.PLACES))
    t.line(s.one_day() + "%s [found|saw|met] %s %s." % (h.name, a("little " + noun), w.PLACES[place][0]), h)
    t.line(trouble + ".")
    s.ask("What did %s find?" % h.name, a("little " + noun))
    t.speak(h, "[Poor thing.|Don't be afraid.|You poor little %s.] I will help you." % noun)
    amount, where, owner, plural = w.MATERIALS[material]
    t.do(h, "needed " + amount)
    s.come_by(material, amount, where, owner, plural)
    t.do(h, "went back to the " + noun)
    t.do(h, cure)
    s.ask("What did %s need for the %s?" % (h.name, noun), amount)
    t.flush()
    if s.rng.random() < 0.6:
        day = s.rng.choice(w.DAYS)
        t.line("[A week later|Next %s|In the summer], the %s came back." % (day, noun))
        gift = s.rng.choice(list(w.TREASURES))
        colour = s.rng.choice(w.TREASURES[gift].split())
        t.line("It brought %s [as a present|to say thank you]." % a(colour + " " + gift))
        s.ask("What did the %s bring?" % noun, a(colour + " " + gift))
    else:
        t.line("Soon the %s was [well again|strong and happy]." % noun)
    s.end(s.rng.choice(["happy", "proud", "glad"]))


def plot_learn(s):
    t, h = s.t, s.hero
    skill = s.rng.choice(list(w.SKILLS))
    failure, advice = w.SKILLS[skill]
    failure = failure.replace("{he}", h.pronoun).replace("{his}", h.his)
    t.line(s.one_day() + "%s [wanted|decided|made up {0} mind] to learn to %s.".replace("{0}", h.his) % (h.name, skill), h)
    s.ask("What did %s want to learn?" % h.name, "to " + skill)
    t.do(h, "tried it [at once|after breakfast|alone]")
    t.line("But %s." % failure, h)
    if s.rng.random() < 0.6:
        t.do(h, "tried again [the next day|in the afternoon]")
        t.line("[It was no better.|It went wrong again.|Again, %s.]" % failure, h)
    teacher = s.friend or (s.relative() if s.rng.random() < 0.6 else s.creature())
    t.line("%s [watched|was watching|laughed kindly]." % upper(met(s, teacher)), teacher)
    t.speak(teacher, "[Don't give up.|You are almost there.|Nobody learns it in a day.] %s." % upper(advice), to=h)
    s.ask("Who gave %s advice?" % h.name, teacher.name)
    days = s.rng.randint(2, 9)
    t.do(h, "practised for %s days" % w.NUMBERS[days])
    s.ask("How many days did %s practise?" % h.name, w.NUMBERS[days])
    t.line("[At last|And then], %s could %s!" % (h.name, skill), h)
    s.end(s.rng.choice(["proud", "happy"]))


def plot_noise(s):
    t, h = s.t, s.hero
    noise = s.rng.choice(list(w.NOISES))
    animal = w.NOISES[noise]
    place = s.rng.choice(list(w.PLACES))
    there, _, spots = w.PLACES[place]
    spot = s.rng.choice(spots)
    t.line("One [dark|stormy|quiet|cold] [night|evening], %s heard a %s %s." % (h.name, noise, there), h)
    s.ask("What did %s hear?" % h.name, "a " + noise)
    s.ask("Where did the noise come from?", there)
    t.speak(h, "[Is it a ghost?|What can that be?|Who is there?|Maybe it is a dragon.]", s.rng.choice(["whispered", "asked"]))
    if s.rng.random() < 0.6:
        other = companion(s)
        t.do(h, "woke " + met(s, other), other)
        t.speak(other, "[We have to look.|I am coming with you.|It is surely nothing.]")
    if s.rng.random() < 0.6:
        t.do(h, "took a [lamp|candle]")
    t.do(h, "[crept|tiptoed|walked slowly] to the " + place)
    t.do(h, "[looked|peeped] " + spot)
    t.line("[There sat|It was only] %s!" % a("little " + animal) if animal != "bee" else "It was only a little bee!", h)
    s.ask("What made the noise?", a("little " + animal))
    t.do(h, "[laughed|smiled|sighed with relief]")
    t.flush()
    if s.rng.random() < 0.6:
        t.line("The %s [was cold|was lost|had been looking for food]." % animal)
        t.do(h, "[gave it some crumbs|made a bed for it|showed it the way out]")
    s.end()


def plot_plant(s):
    t, h = s.t, s.hero
    plant = s.rng.choice(list(w.PLANTS))
    colour = w.PLANTS[plant]
    month = s.rng.choice(w.MONTHS[2:6])
    giver = s.relative() if s.rng.random() < 0.6 else s.creature()
    t.line("[One day in %s|In %s], %s got a seed from %s." % (month, month, h.name, met(s, giver)), h)
    s.ask("Who gave %s the seed?" % h.name, giver.name)
    s.ask("In which month did %s get the seed?" % h.name, "in " + month)
    t.do(h, "dug a small hole")
    t.do(h, "put the seed into the ground and watered it")
    first = s.rng.choice(range(7))
    for i in range(s.rng.choice([1, 2])):
        t.line("On %s, [there was nothing to see|the ground was still bare|nothing had happened]." % w.DAYS[(first + i) % 7], h)
    if s.rng.random() < 0.6:
        t.speak(h, "[Is it asleep?|Why does it not grow?|Perhaps it is dead.]", "asked")
        t.speak(giver, "[Give it time.|Good things are slow.|Keep on watering it.]")
    t.line("Then, on %s, there was a tiny green leaf." % w.DAYS[(first + 2) % 7], h)
    s.ask("On which day was there a leaf?", "on " + w.DAYS[(first + 2) % 7])
    if s.rng.random() < 0.6:
        enemy = s.creature()
        t.do(enemy, "[wanted to eat it|almost stepped on it]")
        t.flush()
        t.sentences[-1] = re.sub("^(%s|The %s)" % (enemy.name, enemy.kind), lambda m: upper(s.named(enemy)), t.sentences[-1])
        t.do(h, "built a little fence")
        s.ask("Why did %s build a fence?" % h.name, "because of " + enemy.name)
    t.line("[By summer|A few weeks later], it was a [tall|beautiful|big] %s %s." % (colour, plant), h)
    s.ask("What grew from the seed?", a(colour + " " + plant))
    s.end()


def plot_gift(s):
    t, h = s.t, s.hero
    other = companion(s)
    thing = s.rng.choice(list(w.TREASURES))
    colour = s.rng.choice(w.TREASURES[thing].split())
    t.line(s.one_day() + "it was the birthday of %s." % met(s, other))
    s.ask("Whose birthday was it?", other.name)
    t.do(h, "wanted to give %s %s" % (other.him, a(colour + " " + thing)), other)
    s.ask("What did %s want to give %s?" % (h.name, other.name), a(colour + " " + thing))
    s.come_by(thing, a(colour + " " + thing), s.rng.choice(["market", "attic", "park", "school", "beach"]), s.rng.choice(w.TRADES)[0], False)
    if s.rng.random() < 0.35:
        t.line("[On the way back,|But then] the %s fell into a puddle." % thing, h)
        t.do(h, "[cleaned it with {his} sleeve|washed it in the stream|almost cried]")
        t.do(h, "[dried it in the sun|wrapped it in a big leaf]")
    t.do(h, "went to " + other.name, other)
    t.speak(h, "[Happy birthday!|This is for you.|Close your eyes!]")
    t.do(other, "[opened the present|was speechless|jumped for joy]", h)
    if s.rng.random() < 0.6:
        t.speak(other, "[It is just what I wanted.|It is the best present of all.|How did you know?]")
    s.end(other=other)


PLOTS = [plot_make, plot_lost, plot_high, plot_visit, plot_fear, plot_quarrel, plot_needy, plot_learn, plot_noise, plot_plant, plot_gift]
