#include "coordinator/char_set.h"

#include "base/assert.h"

enum {
    ASCII = 0x80,
    LONG_S = 0x17f,
    KELVIN = 0x212a,
};

/* Ranges, a pair of characters each. */
struct named {
    const char *name;
    const char *ranges;
};

#define CONTROLS "\x01\x1f\x7f\x7f" /* and NUL, which a C string has not, nor a name */

static const struct named posix_classes[] = {
    {"alnum", "09AZaz"}, {"alpha", "AZaz"}, {"ascii", "\x01\x7f"}, {"blank", "\t\t  "},  {"cntrl", CONTROLS},
    {"digit", "09"},     {"graph", "!~"},   {"lower", "az"},       {"print", " ~"},      {"punct", "!/:@[`{~"},
    {"space", "\t\r  "}, {"upper", "AZ"},   {"word", "09AZaz__"},  {"xdigit", "09AFaf"},
};

/* What re2j 1.8 has of Unicode's general categories, as far as it is ASCII. */
static const struct named categories[] = {
    {"Any", "\x01\x7f"},
    {"C", CONTROLS},
    {"Cc", CONTROLS},
    {"Cf", ""},
    {"Co", ""},
    {"Cs", ""},
    {"L", "AZaz"},
    {"Ll", "az"},
    {"Lm", ""},
    {"Lo", ""},
    {"Lt", ""},
    {"Lu", "AZ"},
    {"M", ""},
    {"Mc", ""},
    {"Me", ""},
    {"Mn", ""},
    {"N", "09"},
    {"Nd", "09"},
    {"Nl", ""},
    {"No", ""},
    {"P", "!#%*,/:;?@[]__{{}}"},
    {"Pc", "__"},
    {"Pd", "--"},
    {"Pe", "))]]}}"},
    {"Pf", ""},
    {"Pi", ""},
    {"Po", "!#%'**,,./:;?@\\\\"},
    {"Ps", "(([[{{"},
    {"S", "$$++<>^^``||~~"},
    {"Sc", "$$"},
    {"Sk", "^^``"},
    {"Sm", "++<>||~~"},
    {"So", ""},
    {"Z", "  "},
    {"Zl", ""},
    {"Zp", ""},
    {"Zs", "  "},
};

/* The scripts that it has: ASCII is Latin or common to all. */
static const char *const scripts[] = {
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Batak",
    "Bengali",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Canadian_Aboriginal",
    "Carian",
    "Cham",
    "Cherokee",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Egyptian_Hieroglyphs",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanunoo",
    "Hebrew",
    "Hiragana",
    "Imperial_Aramaic",
    "Inherited",
    "Inscriptional_Pahlavi",
    "Inscriptional_Parthian",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Katakana",
    "Kayah_Li",
    "Kharoshthi",
    "Khmer",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Linear_B",
    "Lisu",
    "Lycian",
    "Lydian",
    "Malayalam",
    "Mandaic",
    "Meetei_Mayek",
    "Mongolian",
    "Myanmar",
    "New_Tai_Lue",
    "Nko",
    "Ogham",
    "Ol_Chiki",
    "Old_Italic",
    "Old_Persian",
    "Old_South_Arabian",
    "Old_Turkic",
    "Oriya",
    "Osmanya",
    "Phags_Pa",
    "Phoenician",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Shavian",
    "Sinhala",
    "Sundanese",
    "Syloti_Nagri",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Tai_Le",
    "Tai_Tham",
    "Tai_Viet",
    "Tamil",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Ugaritic",
    "Unknown",
    "Vai",
    "Yi",
};

bool char_set_has(const struct char_set *set, uint32_t code)
{
    return code < ASCII ? (set->ascii[code / 64] >> code % 64 & 1) != 0 : set->beyond;
}

static void add_one(struct char_set *set, uint32_t code)
{
    if (code < ASCII)
        set->ascii[code / 64] |= UINT64_C(1) << code % 64;
    else
        set->beyond = true;
}

static uint32_t other_case(uint32_t letter)
{
    return letter ^ ('a' ^ 'A');
}

static void add_both_cases(struct char_set *set, uint32_t letter)
{
    add_one(set, letter);
    add_one(set, other_case(letter));
}

void char_set_add(struct char_set *set, uint32_t low, uint32_t high, bool fold)
{
    assert(low <= high && high <= CHAR_SET_CODE_MAX);
    for (uint32_t code = low; code <= high && code < ASCII; code++) {
        add_one(set, code);
        if (fold && byte_is_letter((int)code))
            add_one(set, other_case(code));
    }
    if (high >= ASCII)
        set->beyond = true;
    if (fold && low <= LONG_S && high >= LONG_S)
        add_both_cases(set, 's');
    if (fold && low <= KELVIN && high >= KELVIN)
        add_both_cases(set, 'k');
}

void char_set_add_all(struct char_set *set, const struct char_set *more)
{
    set->ascii[0] |= more->ascii[0];
    set->ascii[1] |= more->ascii[1];
    set->beyond |= more->beyond;
}

void char_set_negate(struct char_set *set)
{
    set->ascii[0] = ~set->ascii[0];
    set->ascii[1] = ~set->ascii[1];
    set->beyond = !set->beyond;
}

bool char_set_is_folded(const struct char_set *set)
{
    for (uint32_t code = 'a'; code <= 'z'; code++) {
        if (char_set_has(set, code) != char_set_has(set, other_case(code)))
            return false;
    }
    return true;
}

static void add_ranges(struct char_set *set, const char *ranges, bool fold)
{
    for (const char *at = ranges; *at != '\0'; at += 2)
        char_set_add(set, (unsigned char)at[0], (unsigned char)at[1], fold);
}

void char_set_add_perl(struct char_set *set, int letter)
{
    assert(letter == 'd' || letter == 's' || letter == 'w');
    add_ranges(set, letter == 'd' ? "09" : letter == 's' ? "\t\n\f\r  " : "09AZaz__", false);
}

static const char *find(const struct named *all, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_equal(name, bytes_of_text(all[i].name)))
            return all[i].ranges;
    }
    return NULL;
}

bool char_set_add_posix(struct char_set *set, struct bytes name, bool fold)
{
    const char *ranges = find(posix_classes, sizeof(posix_classes) / sizeof(posix_classes[0]), name);

    if (ranges != NULL)
        add_ranges(set, ranges, fold);
    return ranges != NULL;
}

static bool is_script(struct bytes name)
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        if (bytes_equal(name, bytes_of_text(scripts[i])))
            return true;
    }
    return false;
}

bool char_set_add_property(struct char_set *set, struct bytes name, bool fold)
{
    const char *ranges = find(categories, sizeof(categories) / sizeof(categories[0]), name);

    if (ranges == NULL && !is_script(name))
        return false;
    set->beyond = true;
    if (ranges == NULL) {
        struct char_set letters = {0};

        add_ranges(&letters, "AZaz", false);
        if (bytes_equal(name, BYTES_LITERAL("Common")))
            char_set_negate(&letters);
        if (bytes_equal(name, BYTES_LITERAL("Common")) || bytes_equal(name, BYTES_LITERAL("Latin")))
            char_set_add_all(set, &letters);
        return true;
    }
    add_ranges(set, ranges, false);
    if (fold && bytes_equal(name, BYTES_LITERAL("Lu")))
        add_ranges(set, "az", false);
    if (fold && bytes_equal(name, BYTES_LITERAL("Ll")))
        add_ranges(set, "KKSS", false);
    return true;
}
