"""Words that say nothing: what takes the place of a prompt's own words, letter for letter.

Common words, because vocabularies hold them whole: a rare word of ten letters is four tokens, a common one is
one, and the lengths of a trace are what a replay is for. Marks that only give code and JSON their shape are
kept. Scripts without a list here are replaced letter by letter from their own block.
"""

from typing import Final

KEPT: Final = frozenset(
    """
    true false null none nil undefined nan if else elif for while do break continue return def class
    import from as in is not and or with try except finally raise throw catch async await yield lambda
    pass self this new const let var function fn func struct enum impl pub use mod type interface public
    private static void int float str bool string number object array list dict set map print switch
    case default end then begin
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Signs of code and JSON, in whatever case: everybody's text has them."""

WORDS: Final = tuple(
    """
    a i at by go he it me my no of on so to up us we act add age air all any arm art ask bad bag bar bed
    big bit box boy bus buy can car cat cup cut day dog dry ear eat egg eye far few fit fly fun get gas
    hat hot ice job joy key kid law lay leg lot low man mix near also area army away back ball bank base
    bear beat bell best bill bird blue boat body book born both call calm camp card care cash city club
    coal coat cold cook copy cost crew dark data date deal deep desk door down draw drop dust duty each
    earn east easy edge even ever face fact fair farm fast feel fill about above actor admit adult after
    again agent agree ahead allow alone along among anger apple apply arise basic beach below bench
    bread brick bring brown build buyer cabin carry chain chair cheap check accept across action active
    actual advice affect afford agency almost always amount animal annual answer appear around artist
    assume author autumn basket battle beauty become before behind belief better beyond ability absence
    account address advance against airport already another anxiety arrange article attempt average
    balance bedroom benefit between bicycle brother cabinet calcium capital captain careful central
    absolute academic accident accuracy activity actually addition adequate advanced aircraft although
    analysis announce anything anywhere appetite approach approval argument attitude audience bathroom
    becoming birthday advantage adventure afternoon agreement apartment arrangement assistant attention
    attractive authority available beautiful beginning behaviour breakfast building calculate candidate
    celebrate certainly challenge absolutely acceptable accomplish additional afterwards appearance
    appreciate atmosphere attractive background basketball commission commitment comparison completely
    conclusion connection considered convenient conviction combination comfortable communicate
    competition competitive complicated composition concentrate conventional conversation contribution
    construction introduction manufacturer agricultural intelligence
    """.split()  # noqa: SIM905 - a list of words reads best as words
)

HAN: Final = (
    "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会家可下而过天去"
    "能对小多然于心学么之都好看起发当没成只如事把还用第样道想作种开美总从无情己面最女但现前些所同日手"
    "又行意动方期它头经长儿回位分爱老因很给名法间斯知世什两次使身者被高已亲其进此话常与活正感"
)
HIRAGANA: Final = (
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん"
)
KATAKANA: Final = (
    "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
)
HANGUL: Final = "가나다라마바사아자차카타파하고노도로모보소오조초코토포호구누두루무부수우주추"
CYRILLIC: Final = "абвгдежзиклмнопрстуфхцчшья"
GREEK: Final = "αβγδεζηθικλμνξοπρστυφχψω"
ARABIC: Final = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"
HEBREW: Final = "אבגדהוזחטיכלמנסעפצקרשת"
DEVANAGARI: Final = "कखगघचछजझटठडढतथदधनपफबभमयरलवशषसह"
THAI: Final = "กขคงจฉชซญฐณดตถทธนบปผพฟมยรลวสหอ"

LATIN: Final = "àáâãäåæçèéêëìíîïñòóôõöøùúûüý"
"""Latin letters beyond ASCII, and whatever has no list of its own."""

BLOCKS: Final = (
    (0x0370, 0x03FF, GREEK),
    (0x0400, 0x04FF, CYRILLIC),
    (0x0590, 0x05FF, HEBREW),
    (0x0600, 0x06FF, ARABIC),
    (0x0900, 0x097F, DEVANAGARI),
    (0x0E00, 0x0E7F, THAI),
    (0x3040, 0x309F, HIRAGANA),
    (0x30A0, 0x30FF, KATAKANA),
    (0x3400, 0x9FFF, HAN),
    (0xAC00, 0xD7AF, HANGUL),
)
"""First and last code point of a block, and the letters its own are replaced by."""

BY_LENGTH: Final = {
    length: tuple(word for word in WORDS if len(word) == length)
    for length in sorted({len(word) for word in WORDS})
}
LENGTHS: Final = tuple(sorted(BY_LENGTH, reverse=True))
