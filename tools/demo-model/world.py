"""world.py: who and what there is in the stories, and where: tables without behaviour. stories.py makes things happen.

A story's words come from here and from stories.py alone.
"""

GIRLS = "Mia Anna Lucy Ella Rosa Nora Ida Lena Clara Emma Zoe Maya Lily Ruby Alice Tara".split()
BOYS = "Tom Ben Max Leo Sam Paul Finn Jack Noah Hugo Adam Oscar Theo Felix Milo Karl".split()
ANIMAL_NAMES = {"she": "Tilla Poppy Daisy Hazel Pearl Willow Minnie Dot Fern Bella".split(),
                "he": "Rusty Bruno Pip Toby Hopper Moss Barney Otto Rolo Nibbles".split()}
TRAITS = "curious shy brave cheerful kind clever quiet careful dreamy patient lively stubborn gentle".split()

# Animals that tell, act and talk: kind -> what they can do for others.
ANIMALS = {"fox": "clever", "bear": "strong", "rabbit": "quick", "hedgehog": "small", "squirrel": "climb",
           "mouse": "small", "owl": "fly", "duck": "swim", "frog": "swim", "badger": "dig", "otter": "swim",
           "crow": "fly", "goat": "climb", "mole": "dig", "deer": "quick", "horse": "strong", "cat": "climb",
           "dog": "dig", "beaver": "strong", "sparrow": "fly",
           "raven": "clever", "wolf": "clever", "parrot": "clever", "hare": "quick", "pony": "strong", "lizard": "small",
           "goose": "swim"}
# People beside children: word, pronoun, what they can do.
KIN = [("mother", "she"), ("father", "he"), ("grandmother", "she"), ("grandfather", "he"), ("aunt", "she"),
       ("uncle", "he"), ("sister", "she"), ("brother", "he")]
TRADES = [("baker", "he"), ("farmer", "she"), ("fisherman", "he"), ("gardener", "she"), ("miller", "he"),
          ("teacher", "she"), ("shepherd", "he"), ("painter", "she"), ("postman", "he"), ("weaver", "she"),
          ("carpenter", "he"), ("doctor", "she")]

# Places: name -> (where one is there, what is seen there, hiding spots).
PLACES = {
    "forest": ("in the forest", ["tall trees", "soft moss", "a woodpecker", "sunlight between the leaves"],
               ["behind a tree", "under the leaves", "in a hollow log", "next to a mushroom"]),
    "garden": ("in the garden", ["rows of beans", "a fat snail", "bees among the flowers", "a watering can"],
               ["under a bush", "behind the fence", "between the flowers", "beside the gate"]),
    "lake": ("at the lake", ["two white swans", "still water", "dragonflies", "tall reeds"],
             ["among the reeds", "under an old boat", "beside the water", "on a flat stone"]),
    "river": ("by the river", ["shiny fish", "round stones", "fast water", "a heron"],
              ["under the bridge", "behind a rock", "in the wet sand", "on the bank"]),
    "hill": ("on the hill", ["the whole valley", "grazing sheep", "a lonely pine", "low clouds"],
             ["behind a big stone", "in the long grass", "under the pine", "in a small hole"]),
    "meadow": ("in the meadow", ["yellow butterflies", "clover", "a hundred daisies", "a sleepy cow"],
               ["in the tall grass", "behind a haystack", "under the clover", "near the stream"]),
    "barn": ("in the barn", ["sacks of corn", "a sleeping hen", "dusty light", "an old cart"],
             ["in the hay", "behind a barrel", "under the cart", "on a shelf"]),
    "market": ("at the market", ["baskets of plums", "busy people", "bright cloth", "a man with a drum"],
               ["under a table", "behind a basket", "beside the well", "between two boxes"]),
    "beach": ("on the beach", ["white foam", "a tiny crab", "gulls", "a far ship"],
              ["under a shell", "in the sand", "behind a rock", "next to a net"]),
    "cave": ("in the cave", ["dark walls", "dripping water", "a bat", "a cold pool"],
             ["behind a stone", "in a crack", "near the entrance", "at the very back"]),
    "attic": ("in the attic", ["spider webs", "old boxes", "a broken clock", "a dusty mirror"],
              ["inside a chest", "under a blanket", "behind a picture", "on a beam"]),
    "school": ("at the school", ["empty benches", "a big map", "a row of coats", "a globe"],
               ["under a bench", "behind the door", "on the window sill", "in a drawer"]),
    "mill": ("at the mill", ["turning wheels", "white dust", "sacks of flour", "a grey cat asleep"],
             ["behind a sack", "under the stairs", "beside the wheel", "in a corner"]),
    "park": ("in the park", ["a round pond", "children on swings", "pigeons", "old chestnut trees"],
             ["under a bench", "behind the swings", "in a heap of leaves", "next to the pond"]),
}
INDOORS = {"barn", "cave", "attic", "school", "mill"}
HOMES = ["in a small house near the forest", "in a village by the sea", "on a farm behind the hills",
         "in a tall house at the edge of the town", "in a cottage beside a mill", "on a boat on the river"]
DENS = ["in a warm den under an oak", "at the edge of a quiet forest", "near a silver stream",
        "in a hole beneath a hedge", "on a hill full of flowers", "among the roots of an old tree"]

COLOURS = "red blue green yellow white black brown orange purple pink grey golden".split()
# Things to own, lose and give: noun -> colours that it comes in.
TREASURES = {"ball": "red blue green yellow purple", "kite": "red blue orange yellow green", "hat": "red black brown green",
             "scarf": "red blue purple white grey", "key": "golden black brown", "book": "blue green red brown",
             "drum": "red yellow blue", "whistle": "golden green white", "boat": "blue white red", "ring": "golden blue green",
             "basket": "brown yellow white", "button": "pink blue white golden", "bell": "golden blue", "marble": "green blue purple",
             "cup": "white blue pink", "feather": "white grey blue black", "lantern": "red yellow green",
             "umbrella": "black red purple", "glove": "brown white pink", "spoon": "golden brown", "blanket": "grey blue pink",
             "doll": "pink white", "puzzle": "blue orange", "flute": "brown white", "mirror": "golden pink", "top": "orange red"}
HIGH = {"kite": "in the top of a tree", "ball": "on the roof", "hat": "on a high branch", "scarf": "on a tall post",
        "balloon": "under the ceiling of the barn", "apple": "at the end of a branch", "feather": "on a high ledge"}

# Materials: noun -> (with article or amount, place, owner's trade, plural?).
MATERIALS = {
    "flour": ("some flour", "mill", "miller", False), "eggs": ("three eggs", "barn", "farmer", True),
    "honey": ("a jar of honey", "forest", "shepherd", False), "berries": ("a bowl of berries", "forest", "gardener", True),
    "apples": ("some apples", "garden", "gardener", True), "carrots": ("a bunch of carrots", "garden", "farmer", True),
    "milk": ("a jug of milk", "meadow", "farmer", False), "salt": ("a pinch of salt", "market", "baker", False),
    "wood": ("a piece of wood", "forest", "carpenter", False), "rope": ("a long rope", "barn", "fisherman", False),
    "string": ("a ball of string", "market", "weaver", False), "paper": ("a sheet of paper", "school", "teacher", False),
    "cloth": ("a bit of cloth", "attic", "weaver", False), "paint": ("a pot of paint", "attic", "painter", False),
    "wool": ("a bag of wool", "hill", "shepherd", False), "shells": ("a handful of shells", "beach", "fisherman", True),
    "straw": ("an armful of straw", "barn", "farmer", False), "moss": ("a heap of moss", "forest", "gardener", False),
    "flowers": ("an armful of flowers", "meadow", "gardener", True), "nails": ("six nails", "market", "carpenter", True),
    "seeds": ("a bag of seeds", "market", "gardener", True), "clay": ("a lump of clay", "river", "painter", False),
    "nuts": ("a bag of nuts", "park", "baker", True), "mushrooms": ("a basket of mushrooms", "forest", "shepherd", True),
}
# What can be made: noun -> (materials, how, what it is good for).
PRODUCTS = {
    "cake": ("flour eggs honey milk berries", "[stirred|mixed] everything in a big bowl and put it into the oven", "eat"),
    "soup": ("carrots salt mushrooms milk", "cut everything into pieces and let it boil for an hour", "eat"),
    "pie": ("apples flour honey nuts", "rolled the dough and baked it until it was golden", "eat"),
    "bread": ("flour salt seeds nuts", "kneaded the dough and let it rise by the fire", "eat"),
    "kite": ("paper string paint cloth", "glued the pieces together with care", "play"),
    "boat": ("wood rope cloth nails", "sawed and hammered all afternoon", "play"),
    "swing": ("wood rope nails", "tied everything to the strongest branch", "play"),
    "puppet": ("cloth wool paint straw", "sewed until {his} fingers were sore", "play"),
    "necklace": ("shells string paint", "put everything on a string, piece by piece", "wear"),
    "scarf": ("wool string", "knitted row after row", "wear"),
    "crown": ("flowers string paper", "wove everything into a ring", "wear"),
    "bird house": ("wood nails paint straw", "built four walls and a roof", "home"),
    "bed": ("moss straw wool", "laid everything into a box", "home"),
    "scarecrow": ("straw cloth string", "tied everything to a pole", "home"),
    "bowl": ("clay paint", "formed it with wet hands and let it dry in the sun", "home"),
    "picture": ("paper paint", "painted until the light was gone", "wear"),
}
# Things in the way between places: what, who or what gets one past it.
OBSTACLES = {
    "river": ("the bridge over the stream was broken", {"rope": "threw the rope over a branch and swung across",
              "swim": "carried {him} over the water on {helper_his} back", "strong": "pushed a log over the water"},
              "waited until a farmer came by with a boat"),
    "dark": ("it was so dark that {he} could not see {his} own feet", {"lantern": "lit the lantern and held it high",
             "fly": "flew ahead and showed the way", "clever": "followed the smell of the path and led the way"},
             "sat down until the moon came out"),
    "wall": ("a high wall stood in the way", {"rope": "threw the rope over the wall and climbed up",
             "dig": "dug a tunnel under the wall", "climb": "climbed up and opened the gate from the other side"},
             "walked along the wall until {he} found a gate"),
    "thorns": ("the path was full of thorns", {"stick": "pushed the thorns aside with the stick",
               "small": "crept below and found a gap", "strong": "bent the thorns aside"},
               "went back and took the long way round"),
    "mud": ("there was deep mud on the path", {"stick": "felt with the stick for firm ground", "strong": "carried {him} across",
            "quick": "jumped from stone to stone and showed {him} how"}, "laid flat stones on the mud, one after another"),
    "geese": ("three angry geese blocked the way", {"bread": "threw the bread far into the grass, and the geese ran after it",
              "quick": "ran in circles until the geese were tired", "clever": "told the geese a story, and they forgot to be angry"},
              "sang softly until the geese grew calm"),
}
POCKET = {"rope": "a rope", "lantern": "a small lantern", "stick": "a walking stick", "bread": "a piece of bread"}

FEARS = {"dark": ("the dark", ["lit a candle and looked at the shadows", "counted the stars through the window",
                  "held {his} breath and listened to the quiet"], "the night was only quiet and soft"),
         "water": ("deep water", ["put one foot into the lake", "went in up to the knees", "let {himself} float for a moment"],
                   "the water carried everyone who trusted it"),
         "thunder": ("thunder", ["counted after each flash", "sang louder than the rain", "looked out from under the blanket"],
                     "thunder was nothing but a big noise"),
         "heights": ("high places", ["climbed onto a chair", "climbed the first branch", "looked down from the hill"],
                     "the view was the best thing in the world"),
         "strangers": ("talking to strangers", ["waved at the postman", "said good morning to the baker",
                       "asked a girl in the park for her name"], "most strangers were friends one had not met")}
SKILLS = {"whistle": ("no sound came out", "wet your lips first"), "swim": ("{he} sank like a stone", "move your legs like a frog"),
          "ride a bicycle": ("{he} fell into the grass", "look ahead and not down"),
          "juggle": ("all the balls fell down", "start with only two"), "dance": ("{he} stepped on {his} own feet", "listen to the drum"),
          "skip stones": ("the stone sank at once", "take a flat stone"), "bake bread": ("the bread was as hard as a brick", "give it time to rise"),
          "play the flute": ("it sounded like a sad goose", "blow as softly as you can"),
          "paint": ("the horse looked like a potato", "look twice before you draw"), "knit": ("the wool was full of knots", "count every row")}
NEEDS = {"a bird": ("its wing was hurt", "cloth", "tied the cloth around the wing"),
         "a kitten": ("it was hungry", "milk", "poured the milk into a dish"),
         "a lamb": ("it was cold", "wool", "made a warm bed of the wool"),
         "a puppy": ("it was stuck in a hole", "rope", "let the rope down and pulled it out"),
         "a duckling": ("it was hungry", "seeds", "put the seeds on the ground"),
         "a turtle": ("its shell had a crack", "clay", "closed the crack with the clay"),
         "a pony": ("it was weak from hunger", "carrots", "fed it the carrots one by one"),
         "a beetle": ("it had lost its home", "moss", "built a little house of the moss")}
NOISES = {"scratching": "mouse", "knocking": "woodpecker", "splashing": "duck", "humming": "bee", "rustling": "hedgehog",
          "squeaking": "bat", "tapping": "beetle", "howling": "puppy"}
PLANTS = {"sunflower": "yellow", "rose": "red", "bean": "green", "pumpkin": "orange", "violet": "purple", "lily": "white"}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
