"""The terms of a page: marked once in each section, and listed if they were."""

from __future__ import annotations

from reusebench.reports.base.terms import Term, Terms


def test_a_term_is_marked_once_in_each_section() -> None:
    """The longest term counts, in the singular or the plural, and never a part of a word."""
    terms = Terms(
        {
            "dup": Term("dup", "a copy"),
            "Full dup": Term("full_dup", "all are copies"),
            "RSS": Term("rss", "memory"),
        }
    )
    terms.begin()
    assert str(terms.named("Full dup makes dups; a dup")) == (
        '<abbr title="all are copies">Full dup</abbr> makes <abbr title="a copy">dups</abbr>; a dup'
    )
    assert str(terms.named("duplicate RSS_0 Full dup")) == "duplicate RSS_0 Full dup"
    terms.begin()
    assert "abbr" in terms.named("Full dup")


def test_a_link_leads_to_the_meaning() -> None:
    """Only terms that were marked are in the list, without those that another place explains."""
    terms = Terms(
        {
            "Done / lost": Term("done", "its end"),
            "RSS": Term("rss", "memory"),
            "PSS": Term("pss", "a share"),
            "x": Term("x", "unused"),
        }
    )
    assert str(terms.linked("<i> lost")) == (
        '&lt;i&gt; <a class="term" href="#term-done" title="its end">lost</a>'
    )
    terms.named("RSS, MiB")
    terms.named("PSS")
    assert terms.explained("PSS", Term("pss", "a share")) == "term-pss"
    assert terms.explained("Peak", Term("peak", "not marked")) == "term-peak"
    assert terms.used == [
        ("term-done", "Done / lost", "its end"),
        ("term-rss", "RSS", "memory"),
    ]


def test_other_scripts_have_no_spaces() -> None:
    """A term of Chinese is found between other characters, without its English word."""
    terms = Terms({"上下文（context）": Term("context", "x")})  # noqa: RUF001
    assert "abbr" in terms.named("每个上下文的内存")
