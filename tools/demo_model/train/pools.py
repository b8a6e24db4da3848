"""Word lists and random values used by the conversation generator."""

FIRST_NAMES = """Anna Ben Clara David Elena Felix Grace Hugo Iris Jonas Kira Leo Maya Nora Oscar Paula Quentin Rosa Samuel
Tara Ulrich Vera Walter Xenia Yusuf Zoe Amir Bella Carlos Dora Emil Fatima George Hanna Igor Julia Kevin Lena Marco Nina
Oliver Priya Rafael Sofia Thomas Uma Victor Wendy Ximena Yara Zane Adele Boris Chloe Dario Esther Frank Gloria Henry Ines
Jakob Klara Lukas Marta Noah Olga Peter Ruth Simon Tilda Viktor Willa Alice Bruno Cecilia Daniel Eva Finn Greta Harold Ida
Jasper Karin Liam Mona Nils Otto Pia Robin Stella Theo Vince Amelia Arthur Diana Edgar Flora Gavin Hazel Ivan Jenny Kurt
Lily Martin Nadia Owen Penny Ralph Sarah Tim Vivian William Ahmed Beatrice Colin Elsa Gustav Helen Jack Laura Milo Naomi
Pablo Rita Sven Tomas Wanda Kenji Aiko Mei Chen Ravi Anil Omar Layla Ines Joao Sana Tariq Kofi Ama Zuri""".split()

CITIES = """Oslo Lisbon Vienna Prague Dublin Madrid Rome Paris Berlin Munich Hamburg Zurich Geneva Milan Turin Naples Athens
Sofia Bucharest Budapest Warsaw Krakow Riga Tallinn Vilnius Helsinki Stockholm Gothenburg Copenhagen Aarhus Bergen
Reykjavik Edinburgh Glasgow London Bristol Leeds York Cardiff Belfast Cork Brussels Antwerp Ghent Rotterdam Utrecht
Luxembourg Lyon Nice Toulouse Bordeaux Seville Valencia Porto Malaga Florence Venice Bologna Salzburg Graz Ljubljana
Zagreb Split Belgrade Skopje Istanbul Ankara Cairo Tunis Casablanca Nairobi Lagos Accra Dakar Durban Tokyo Osaka Kyoto
Seoul Busan Beijing Shanghai Taipei Hanoi Bangkok Manila Jakarta Singapore Mumbai Delhi Chennai Kolkata Colombo
Kathmandu Sydney Melbourne Perth Brisbane Auckland Wellington Toronto Montreal Vancouver Ottawa Quebec Chicago Boston
Seattle Denver Austin Dallas Houston Miami Atlanta Portland Detroit Lima Quito Bogota Santiago Havana""".split()

CAPITALS = """France:Paris Germany:Berlin Italy:Rome Spain:Madrid Portugal:Lisbon Austria:Vienna Switzerland:Bern
Belgium:Brussels Denmark:Copenhagen Norway:Oslo Sweden:Stockholm Finland:Helsinki Iceland:Reykjavik Ireland:Dublin
Poland:Warsaw Hungary:Budapest Romania:Bucharest Bulgaria:Sofia Greece:Athens Turkey:Ankara Croatia:Zagreb Serbia:Belgrade
Slovenia:Ljubljana Slovakia:Bratislava Estonia:Tallinn Latvia:Riga Lithuania:Vilnius Ukraine:Kyiv Egypt:Cairo
Morocco:Rabat Tunisia:Tunis Kenya:Nairobi Ghana:Accra Senegal:Dakar Nigeria:Abuja Ethiopia:Addis_Ababa Japan:Tokyo
China:Beijing India:New_Delhi Nepal:Kathmandu Thailand:Bangkok Vietnam:Hanoi Indonesia:Jakarta Australia:Canberra
Canada:Ottawa Mexico:Mexico_City Cuba:Havana Peru:Lima Chile:Santiago Argentina:Buenos_Aires Brazil:Brasilia
Colombia:Bogota Ecuador:Quito Uruguay:Montevideo Bolivia:Sucre Venezuela:Caracas Jamaica:Kingston Malta:Valletta
Cyprus:Nicosia Albania:Tirana Mongolia:Ulaanbaatar Iran:Tehran Iraq:Baghdad Jordan:Amman Lebanon:Beirut Qatar:Doha
Pakistan:Islamabad Bangladesh:Dhaka Philippines:Manila Malaysia:Kuala_Lumpur Fiji:Suva""".split()

COLOURS = """red blue green yellow orange purple pink brown black white grey teal turquoise violet indigo crimson scarlet
amber gold silver copper ivory beige olive lime navy maroon coral magenta cyan lavender mint""".split()
ANIMALS = """otter fox owl bear wolf hare hedgehog badger squirrel mouse cat dog horse goat sheep duck goose swan heron
raven crow sparrow robin eagle falcon turtle frog toad lizard snake dolphin whale seal penguin lion tiger elephant giraffe
zebra monkey panda koala kangaroo camel deer moose beaver rabbit bee ant spider crab snail parrot pigeon donkey pony""".split()
FOODS = """pizza pasta soup bread cheese rice curry salad sushi noodles pancakes waffles apples pears plums cherries
strawberries mushrooms potatoes carrots beans lentils dumplings tacos omelettes chocolate honey yoghurt porridge""".split()
DRINKS = "tea coffee water lemonade cocoa milk juice cider espresso mint_tea ginger_beer apple_juice".split()
HOBBIES = """chess painting swimming hiking gardening cooking sailing cycling knitting photography pottery reading running
climbing fishing dancing singing skating skiing surfing birdwatching juggling origami astronomy woodworking""".split()
JOBS = """teacher nurse baker carpenter pilot doctor lawyer farmer plumber engineer painter musician librarian gardener
chemist journalist translator architect dentist electrician tailor driver cook photographer programmer geologist
historian biologist sailor mechanic vet firefighter postman clerk designer""".split()
INSTRUMENTS = "piano violin guitar flute cello trumpet drums harp clarinet saxophone accordion banjo organ trombone viola".split()
OBJECTS = """lamp key map book clock coin ring hat scarf umbrella basket bottle candle compass drum feather hammer kettle
ladder lantern letter mirror needle notebook pencil pillow plate pocket rope saddle shell shovel spoon stone sword telescope
thimble ticket torch trumpet vase wheel whistle button blanket boat kite bell box cup jar chain crown flag mask pearl
puzzle ribbon stamp wagon""".split()
PLACES = """forest harbour village meadow mountain river lake castle market library garden lighthouse mill barn cave bridge
island valley desert beach school station bakery workshop tower orchard""".split()
SUBJECTS = "history music chemistry biology geography physics maths art drama economics Latin Spanish French German".split()
SEASONS = "spring summer autumn winter".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November December".split()
)
LANGUAGES = "French German Spanish Italian Dutch Danish Polish Czech Greek Turkish Arabic Hindi Japanese Korean Portuguese Swedish".split()
STREETS = "Maple Oak River Station Church Mill Garden Park Harbour King Queen Castle Forest Lake Hill Bridge Market".split()
WEATHER = [
    "clear sky",
    "light rain",
    "heavy rain",
    "snow",
    "fog",
    "overcast",
    "a few clouds",
    "thunderstorms",
    "strong wind",
    "drizzle",
]
ADJECTIVES = """small old young brave clever quiet lonely cheerful curious gentle hungry lazy proud shy sleepy tiny tired
kind honest careful nervous playful patient stubborn""".split()

SYLLABLE_A = "Vel Tam Zor Kal Mir Quen Bra Fen Lor Nex Pal Ryn Sol Ter Ulm Vor Wyn Xan Yor Zeb Dra Gal Hel Jor Kes Lum Mor Nim Orb Pyr".split()
SYLLABLE_B = "ko ra tri ni mo ba lu sha de vi zo ga pe ti no ri sa ma ke lo xi du fa ho".split()
SYLLABLE_C = "ra x n th lis dor mar nix ven tus ka bel rin go mek sar lan wick por den zal fin mir on".split()


def spoken(word):
    return word.replace("_", " ")


WORDS = []  # all words of the lexicon, see open_word
ONSETS = "b c d f g h j k l m n p q r s t v w x y z bl br ch cl cr dr fl fr gl gr kn pl pr qu sc sh sk sl sm sn sp st sw th tr tw wh".split()
VOWELS = "a e i o u y a e i o u ai au ea ee ei ie oa oo ou ue".split()
CODAS = [
    "",
    "",
    "",
    "n",
    "r",
    "s",
    "t",
    "l",
    "m",
    "k",
    "x",
    "d",
    "g",
    "p",
    "z",
    "ng",
    "nt",
    "rd",
    "st",
    "ck",
    "sh",
    "ll",
    "ss",
    "ft",
    "lk",
]


def pseudo_word(r):
    return "".join(
        r.choice(ONSETS) + r.choice(VOWELS) + r.choice(CODAS)
        for _ in range(r.choice([1, 2, 2, 2, 3]))
    )


def open_word(r):
    """Any word at all: copying must not depend on known names."""
    k = r.random()
    if k < 0.55 and WORDS:
        return r.choice(WORDS)
    if k < 0.9:
        return pseudo_word(r)
    return r.choice(WORDS or ["word"]) + r.choice(
        ["", "s", "son", "ville", "field", "er", "y", "ton"]
    )


def open_name(r):
    """A name of a person, an animal or a place."""
    return r.choice(FIRST_NAMES) if r.random() < 0.5 else open_word(r).capitalize()


def invented(r):
    if r.random() < 0.4:
        return open_word(r).capitalize()
    word = r.choice(SYLLABLE_A)
    if r.random() < 0.7:
        word += r.choice(SYLLABLE_B)
    return word + r.choice(SYLLABLE_C)


def codename(r):
    k = r.random()
    if k < 0.4:
        return invented(r)
    if k < 0.55:
        return f"{invented(r)}-{r.randint(1, 99)}"
    first = r.choice([r.choice(COLOURS), r.choice(ADJECTIVES), open_word(r)]).capitalize()
    second = r.choice([r.choice(ANIMALS), r.choice(OBJECTS), open_word(r)]).capitalize()
    if k < 0.85:
        return f"{first} {second}"
    if k < 0.92:
        return f"{second} {r.randint(1, 99)}"
    return second


def digits(lo, hi):
    return lambda r: str(r.randint(lo, hi))


def code(r):
    return "".join(str(r.randint(0, 9)) for _ in range(r.choice([3, 4, 4, 4, 5, 6])))


def plate(r):
    letters = "ABCDEFGHJKLMNPRSTUVWXYZ"
    return f"{r.choice(letters)}{r.choice(letters)}-{r.randint(10, 9999)}"


def password(r):
    return r.choice(
        [
            lambda: f"{r.choice(COLOURS)}-{r.choice(ANIMALS)}-{r.randint(10, 99)}",
            lambda: f"{r.choice(OBJECTS)}{r.randint(100, 999)}",
            lambda: f"{r.choice(ADJECTIVES)} {r.choice(ANIMALS)} {r.choice(PLACES)}",
            lambda: invented(r).lower() + str(r.randint(1, 99)),
        ]
    )()


def clock(r):
    return r.choice(
        [f"{r.randint(7, 20)}:{r.choice(['00', '15', '30', '45'])}", f"{r.randint(1, 12)} o'clock"]
    )


def date(r):
    return f"{r.randint(1, 28)} {r.choice(MONTHS)}"


def money(r):
    return f"{r.choice([r.randint(2, 99) * 10, r.randint(1, 40) * 100, r.randint(5, 95)])} euros"


CLOSED = (WEEKDAYS, MONTHS, SEASONS)


def pick(pool):
    """A value of the pool, or now and then any other word."""
    share = 0.0 if pool in CLOSED else 0.25

    def value(r):
        if r.random() < share:
            return open_word(r).capitalize() if pool[0][0].isupper() else open_word(r)
        return spoken(r.choice(pool))

    return value
