from service.core.vocabulary import IDS, MODELS_MAX, Vocabularies, Vocabulary


def test_an_id_is_known_once_a_clean_answer_has_brought_it() -> None:
    known = Vocabulary()
    assert not known.holds(7)
    known.learn([7, 7, IDS - 1])
    assert known.holds(7)
    assert known.holds(IDS - 1)
    assert not known.holds(8)
    assert known.tokens == 3


def test_an_id_beyond_the_table_proves_nothing() -> None:
    known = Vocabulary()
    known.learn([IDS, -1])
    assert known.holds(IDS)
    assert known.holds(-1)


def test_the_model_unasked_for_longest_makes_room() -> None:
    known = Vocabularies()
    for number in range(MODELS_MAX):
        known.of(f"m{number}").learn([number])
    known.of("m0")
    known.of("one more")
    assert known.of("m0").holds(0)
    assert known.of("m1").tokens == 0
