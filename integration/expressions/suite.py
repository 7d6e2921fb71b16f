"""Expressions over topic names: what ours take and match, and what the library of Kafka's broker does (re2j)."""

import os
import random
import subprocess
import sys

from harness import cache, tools
from harness.runner import Different

NEEDS = ("kafka",)
NEEDS_BROKER = False

SEED = int(os.environ.get("OTTLA_EXPRESSIONS_SEED", "20261130"))
COUNT = int(os.environ.get("OTTLA_EXPRESSIONS", "40000"))
SHOWN = 12

NAMES = ["", "a", "b", "A", "ab", "aB", "foo", "a.b", "a-b", "_x", "k", "K", "s", "S", "topic-1", "aab", "aaa", "a1", "12",
         "foo.bar", "x_y", "__consumer_offsets", "ba", "abc"]

PLAIN = list("aabbABxk.-_1 sS#{}],:=&~") + ["|", "||", "()", "(|a)", "b{1000}"]
ESCAPES = [f"\\{letter}" for letter in "dDsSwWafnrtvAzbBZGKCRXNlhHuLUegkQE0123456789_/@-.]^$"] + [
    "\\x41", "\\x{62}", "\\x{0000061}", "\\x4", "\\x", "\\x{", "\\x{}", "\\x{110000}", "\\x{ff}", "\\141", "\\07", "\\18",
    "\\Qa.b\\E", "\\Qa", "\\Q\\E", "\\cA", "\\k<n>", "\\é", "\\"]
PROPERTIES = [sign + name for sign in ("\\p", "\\P") for name in (
    "L", "N", "P", "S", "Z", "M", "C", "X", "s", "^L", "{L}", "{Lu}", "{Ll}", "{^Lu}", "{^Ll}", "{Any}", "{Latin}", "{Common}",
    "{Greek}", "{Han}", "{Po}", "{Sm}", "{Zs}", "{L&}", "{lu}", "{ Lu}", "{ASCII}", "{Alpha}", "{Script=Latin}", "{Adlam}",
    "{Xan}", "{", "{L", "{}", "")]
# No range up to where U+2130 is: with (?i) before it re2j 1.8 never ends.
CLASSES = ["[[:alpha:]]", "[[:^alpha:]]", "[[:word:]]", "[^[:digit:]]", "[[:upper:]]", "[[:^lower:]]", "[[:foo:]]",
           "[[:alpha:", "[[:alpha]", "\\[[:alpha:]]", "[[.a.]]", "[[=a=]]", "[a-c]", "[^a-c]", "[]a]", "[^]a]", "[a-]", "[-a]",
           "[a\\-c]", "[\\d-]", "[\\d-a]", "[a-\\d]", "[\\w.]", "[\\x41-\\x5a]", "[b-a]", "[a-a]", "[&&a]", "[a&&b]", "[[a]]",
           "[a[b]c]", "[a--b]", "[--a]", "[ -~]", "[]", "[^]", "[a", "[\\p{Lu}a]", "[^\\p{Lu}]", "[\\PL]", "[\\P{Ll}]",
           "[\\Qa\\E]", "[\\b]", "[\\e]", "[^\\x00-\\x{10FFFF}]", "[\\x00-\\x{10FFFF}]", "[é]", "[^é]", "[ſ]", "[é-ž]",
           "[z-\\x{300}]", "[ſ-ƀa]"]
BEYOND = ["é", "ſ", "K", "\U0001f600"]
GROUPS = ["(?i)", "(?s)", "(?m)", "(?U)", "(?-i)", "(?i-s)", "(?is-mU)", "(?s-i)", "(?)", "(?-)", "(?i-)", "(?x)", "(?i",
          "(?P<n>a)", "(?<n>a)", "(?<n>b)", "(?P<n", "(?P=n)", "(?P<1>a)", "(?P<>a)", "(?P<é>a)", "(?P>n)", "(?:", "(?", "(?=a)",
          "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#a)", "(*ACCEPT)", "(", ")"]
ANCHORS = ["^", "$", "\\b", "\\B", "\\A", "\\z"]
KINDS = [PLAIN, PLAIN, PLAIN, ESCAPES, PROPERTIES, CLASSES, BEYOND, GROUPS, ANCHORS]
OPENERS = ["(", "(", "(?:", "(?i:", "(?s:", "(?U:", "(?-i:", "(?i-s:", "(?P<q>", "(?<a_1>"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{1}", "{2}", "{0}", "{0,}", "{1,2}", "{2,1}", "{,2}", "{1,", "{1001}",
               "{0,0}", "{01}", "{1,02}", "{ 1}", "{1, 2}", "*+", "++", "**", "{2}{2}", "{2}?", "{2}??", "{2}+", "{99999999999}",
               "(?i)*", "(?)+", "\\Q\\E?", "{*", "{{2}"]


def expression(dice, depth=0):
    text = ""
    for _ in range(dice.randint(1, 4)):
        kind = dice.random()
        if kind < 0.12 and depth < 3:
            piece = dice.choice(OPENERS) + expression(dice, depth + 1) + ")"
        elif kind < 0.2 and depth < 3:
            piece = expression(dice, depth + 1) + "|"
        else:
            piece = dice.choice(dice.choice(KINDS))
        if dice.random() < 0.3:
            piece += dice.choice(QUANTIFIERS)
        text += piece
    return text


def hexed(text):
    return text.encode("utf-8").hex() or "-"


def asked(env, texts):
    """What either says of each expression."""
    lines = "".join(" ".join(map(hexed, [text, *NAMES])) + "\n" for text in texts)
    kafka = subprocess.run(["java", *tools.java_options(), str(cache.INTEGRATION / "expressions/Expressions.java")], input=lines,
                           stdout=subprocess.PIPE, stderr=sys.stderr, text=True, timeout=300, check=True).stdout
    ours = env.run([env.client_program("tests/coordinator/regex_pipe")], input=lines).stdout
    return kafka.split("\n")[:-1], ours.split("\n")[:-1]


def excused(kafka, ours):
    """What is refused or unmatched because it is large, which topic_regex.h says: RE2 matches it in linear time."""
    if ours == "refused expression too large":
        return True
    return "t" in ours and all(mine in ("t", its) for mine, its in zip(ours, kafka))


def test_random_expressions(env):
    """What RE2 refuses is refused, what it takes is taken, and each name is matched as there."""
    dice = random.Random(SEED)
    texts = [expression(dice) for _ in range(COUNT)]
    kafkas, mine = asked(env, texts)
    if not len(texts) == len(kafkas) == len(mine):
        raise Different(f"{len(texts)} expressions, {len(kafkas)} and {len(mine)} answers")
    taken, large, wrong = 0, 0, []
    for text, kafka, ours in zip(texts, kafkas, mine):
        taken += not kafka.startswith("refused")
        if kafka == ours or (kafka.startswith("refused") and ours.startswith("refused")):
            continue
        if excused(kafka, ours):
            large += 1
        else:
            wrong.append(f"{text!r}: ours {ours}, RE2's {kafka}")
    print(f"    seed {SEED}: {len(texts)} expressions, {taken} taken, {large} too large or too much work here")
    if wrong:
        raise Different(f"{len(wrong)} differ: " + "; ".join(sorted(wrong, key=len)[:SHOWN]))
    if taken < len(texts) / 10 or large > len(texts) / 500:
        raise Different(f"{taken} taken, {large} too large: the expressions show little")
