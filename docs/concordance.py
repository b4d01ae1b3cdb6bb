"""Write the concordance of the paper and the library to `docs/_generated/concordance.md`.

One row for every definition, lemma, proposition, theorem, corollary, equation, figure, table and appendix of the paper:
what it is, the names that implement it, the tests, the departures and the claims. Claims are looked up by their place
in the paper, so a new claim appears here on its own. `conf.py` runs this file at every build.
"""

import re
from pathlib import Path
from typing import NamedTuple

from factorax_paper.harness.claims import Claim, published

PAGE = Path(__file__).parent / "_generated" / "concordance.md"

SIGN = "departures_variance.md#the-sign-in-proposition-2"
COVARIANCE = "departures_variance.md#the-dropped-covariance-and-the-co-parent-condition"
TRANSLATION = "departures_variance.md#the-non-negative-translation"
MINIMUM = "departures_structure.md#the-minimum-factorisation"
OPTIMAL = "departures_structure.md#optimal-baselines"
RETURNS = "departures_structure.md#which-graph-rewards-or-returns"
COMA = "departures_credit.md#coma-has-k-i-but-not-because-of-influence"
PRECEDENCE = "departures_credit.md#the-precedence-of-k"
SUMS = "departures_baselines.md#per-factor-variances-do-not-add-up"
WHOLE_ACTION = "departures_baselines.md#a-baseline-of-the-whole-action-is-no-control-variate"
FORKS = "departures_baselines.md#the-search-bandit-n-forks-or-one-shared-penalty"
GIVEN = "departures_baselines.md#two-conditions-that-lack-a-given"


class Item(NamedTuple):
    """A numbered item of the paper and what corresponds to it."""

    label: str
    what: str
    names: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()
    experiment: str = ""


ESTIMATORS, VARIANCE = "tests/gradients/test_estimators.py", "tests/gradients/test_variance.py"
UNBIASED = f"{ESTIMATORS}::test_factored_and_vanilla_gradients_are_the_gradient_of_the_objective"
OPTIMA = "tests/gradients/test_optimal.py"
COUNTER, THEOREMS = "tests/test_counter_examples.py", "tests/test_theorems.py"
QUALITATIVE = "tests/experiments/test_qualitative.py"
TRAFFIC = "factorax_traffic"

ITEMS: dict[str, tuple[Item, ...]] = {
    "Definitions": (
        Item("Def. 2.1", "Vanilla policy gradient (VPG)", ("gradients.vanilla",), (UNBIASED,)),
        Item(
            "Def. 2.2",
            "Partition map σ and its complement",
            ("PartitionMap",),
            ("tests/structure/test_partition.py::test_merge_undoes_the_split_of_tuples_and_lists",),
        ),
        Item(
            "Def. 3.1",
            "Influence network 𝒢",
            ("InfluenceNetwork", "close_over"),
            ("tests/structure/test_conversion.py::test_a_boolean_network_is_its_partition_maps",),
            (RETURNS,),
        ),
        Item(
            "Def. 3.2",
            "Influence matrix K",
            ("InfluenceNetwork.to_dense", "InfluenceNetwork"),
            ("tests/structure/test_network.py::test_counts_agree_with_the_dense_matrix",),
        ),
        Item(
            "Def. 3.3",
            "Policy factorisation Σ",
            ("Factorisation",),
            ("tests/structure/test_factorisation.py::test_groups_and_group_numbers_say_the_same",),
        ),
        Item(
            "Def. 3.4",
            "Factored influence network 𝒢_Σ and matrix K_Σ",
            ("InfluenceNetwork.factor",),
            ("tests/structure/test_network.py::test_a_factor_has_the_union_of_the_edges_it_merges",),
        ),
        Item(
            "Def. 4.1",
            "Factor baselines",
            ("factor_baseline", "credit"),
            (f"{THEOREMS}::test_factor_baselines_are_control_variates",),
            (PRECEDENCE,),
        ),
        Item(
            "Def. 4.2",
            "Minimum factorisation (MF)",
            ("InfluenceNetwork.minimum_factorisation",),
            ("tests/structure/test_factorisation.py::test_no_other_disjoint_bicliques_cover_every_edge_with_so_few",),
            (MINIMUM,),
        ),
    ),
    "Results": (
        Item(
            "Lemma 4.1",
            "Factor baselines are valid control variates",
            ("factor_baseline",),
            (f"{THEOREMS}::test_factor_baselines_are_control_variates",),
        ),
        Item("Prop. 1", "The factored policy gradient is unbiased", ("gradients.factored",), (UNBIASED,)),
        Item(
            "Prop. 2",
            "Variance decomposition ΔV",
            ("gradients.variance_report", "gradients.VarianceReport"),
            (f"{VARIANCE}::test_every_term_is_exact",),
            (SIGN, COVARIANCE, SUMS),
        ),
        Item(
            "Cor. 4.1",
            "Non-negative variance reduction by translation",
            ("gradients.nonnegative_translation",),
            (f"{COUNTER}::TestTranslation", f"{THEOREMS}::test_the_strict_translation"),
            (TRANSLATION,),
        ),
        Item(
            "Thm. 4.1",
            "The minimum factorisation exists and is unique",
            ("InfluenceNetwork.minimum_factorisation",),
            ("tests/structure/test_factorisation.py::test_the_minimum_biclique_vertex_cover_is_not_unique",),
            (MINIMUM,),
        ),
        Item(
            "Lemma A.1",
            "Control variates",
            ("gradients.separable_baseline", "gradients.substituted_baseline"),
            (f"{THEOREMS}::test_a_control_variate_given_the_condition",),
            (GIVEN,),
        ),
    ),
    "Equations": (
        Item("eq. 1", "Policy gradient theorem with a baseline b(s)", ("gradients.vanilla",), (UNBIASED,), (GIVEN,)),
        Item("eq. 2", "The VPG estimator", ("gradients.vanilla",), (UNBIASED,)),
        Item("eq. 3", "Objective ψ = Σⱼ λⱼ ψⱼ", ("Spec", "problems.Problem"), ("tests/test_spec.py",), (RETURNS,)),
        Item("eq. 4", "Set of targets Ψ", ("InfluenceNetwork",), ("tests/structure/test_network.py",)),
        Item(
            "eq. 5",
            "Policy as a product over factors",
            ("distributions.Product", "gradients.check_product_form"),
            ("tests/gradients/test_scores.py", f"{COUNTER}::test_a_joint_policy_need_not_be_a_product"),
        ),
        Item(
            "eq. 6",
            "Factor baseline b_i = [(1 − K_Σ) λ∘ψ]_i",
            ("factor_baseline",),
            (f"{COUNTER}::test_precedence",),
            (PRECEDENCE,),
        ),
        Item(
            "eq. 7",
            "FPG estimator S K_Σ λ∘ψ",
            ("gradients.factored", "credit"),
            (f"{ESTIMATORS}::test_the_estimator_is_the_score_matrix_times_the_credit",),
            (PRECEDENCE,),
        ),
        Item(
            "eq. 8",
            "ΔV in two terms; exactly, there are three",
            ("gradients.variance_report",),
            (f"{VARIANCE}::test_every_term_is_exact",),
            (SIGN, COVARIANCE),
        ),
        Item(
            "eq. 9",
            "Total variance with covariances between factors",
            ("gradients.gradient_variance",),
            (f"{VARIANCE}::test_totals_are_sums_if_and_only_if_no_parameters_are_shared",),
            (SUMS,),
        ),
        Item(
            "eq. 10",
            "Variance of the baseline's part, V[yᵢ]",
            ("gradients.wu_baseline",),
            (f"{OPTIMA}::test_wu_baseline_is_its_formula",),
            (OPTIMAL,),
        ),
        Item(
            "eq. 11",
            "Cov[yᵢ, yⱼ] between baselines",
            ("gradients.least_squares_baseline",),
            (f"{COUNTER}::test_the_variance_is_of_degree_two_in_the_baselines_and_its_gradient_of_degree_one",),
            (OPTIMAL,),
        ),
        Item(
            "eq. 12",
            "Cov[xᵢ, yᵢ] of a factor with its own baseline",
            ("gradients.wu_baseline",),
            (f"{COUNTER}::test_the_covariance_with_the_own_baseline_does_not_vanish_without_shared_parameters",),
            (OPTIMAL,),
        ),
        Item(
            "eq. 13",
            "Cov[xᵢ, yⱼ] across factors",
            ("gradients.least_squares_baseline",),
            (f"{OPTIMA}::test_least_squares_reaches_the_minimum_that_a_numerical_search_finds",),
            (OPTIMAL,),
        ),
    ),
    "Figures and tables": (
        Item("Fig. 1a", "Fork", ("structure.gallery.fork",), ("tests/structure/test_gallery.py",)),
        Item("Fig. 1b", "Collider", ("structure.gallery.collider",), ("tests/structure/test_gallery.py",)),
        Item("Fig. 1c", "Fork/collider", ("structure.gallery.fork_collider",), ("tests/structure/test_gallery.py",)),
        Item("Fig. 1d", "Complete network", ("structure.gallery.complete",), ("tests/structure/test_gallery.py",)),
        Item(
            "Fig. 2",
            "Policy factorisation of three actions",
            ("structure.gallery.three_actions", "InfluenceNetwork.factor"),
            ("tests/structure/test_gallery.py::test_the_factored_figure_is_the_minimum_factorisation",),
        ),
        Item(
            "Fig. 3",
            "Variance decomposition on two bandits",
            ("problems.search_bandit", "problems.relu_bandit"),
            ("tests/experiments/test_variance_decomposition.py",),
            (SIGN, COVARIANCE),
            "variance-decomposition",
        ),
        Item(
            "Fig. 4a",
            "Search bandit: convergence with baselines",
            ("problems.search_bandit",),
            (f"{QUALITATIVE}::test_methods_come_in_the_paper_s_order_in_every_seed",),
            (WHOLE_ACTION, FORKS),
            "search-baselines",
        ),
        Item(
            "Fig. 4b",
            "Search bandit: aliasing",
            ("problems.search_bandit",),
            (f"{QUALITATIVE}::test_vpg_credits_an_action_with_the_errors_of_the_others",),
            (),
            "search-aliasing",
        ),
        Item(
            "Table 1",
            "Iterations per second",
            ("gradients.factored", "gradients.vanilla"),
            ("tests/experiments/test_experiments.py",),
            (),
            "search-throughput",
        ),
        Item(
            "Fig. 5a",
            "Traffic lights, 3×3",
            ("problems.traffic.lanes", "problems.traffic.influence"),
            ("tests/experiments/test_traffic_3x3.py",),
            (RETURNS,),
            "traffic-3x3",
        ),
        Item(
            "Fig. 5b",
            "Traffic lights, 2×6",
            ("problems.traffic.lanes", "problems.traffic.influence"),
            ("tests/experiments/test_traffic_2x6.py",),
            (RETURNS,),
            "traffic-2x6",
        ),
        Item(
            "Fig. 6",
            "Influence network of the search bandit",
            ("structure.gallery.search_bandit",),
            ("tests/structure/test_gallery.py::test_the_search_bandit_shares_its_penalty_among_the_first_k",),
            (FORKS,),
        ),
        Item(
            "Fig. 7",
            "Optimality gap against dimension and step size",
            ("problems.search_bandit",),
            ("tests/experiments/test_search_stability.py",),
            (),
            "search-stability",
        ),
        Item(
            "Fig. 8",
            "Steps to a gap of 0.1",
            ("problems.search_bandit",),
            ("tests/experiments/test_search_rate.py",),
            (),
            "search-rate",
        ),
        Item(
            "Fig. 9",
            "Ratio of the gaps, with penalties",
            ("problems.search_bandit",),
            ("tests/experiments/test_search_discrepancy.py",),
            (FORKS,),
            "search-discrepancy",
        ),
    ),
    "Appendices": (
        Item(
            "App. A",
            "Factor baselines: proofs",
            ("factor_baseline",),
            (f"{THEOREMS}::test_factor_baselines_are_control_variates",),
            (GIVEN,),
        ),
        Item(
            "App. A.1",
            "Optimal baselines",
            ("gradients.wu_baseline", "gradients.least_squares_baseline"),
            (OPTIMA,),
            (OPTIMAL,),
        ),
        Item(
            "App. B",
            "Factored policy gradients: proofs",
            ("gradients.factored", "gradients.variance_report"),
            (UNBIASED, f"{VARIANCE}::test_every_term_is_exact"),
            (SIGN, COVARIANCE, TRANSLATION),
        ),
        Item(
            "App. C",
            "Minimum factorisation: proof",
            ("InfluenceNetwork.minimum_factorisation",),
            ("tests/structure/test_factorisation.py::test_minimum_groups_hold_equal_rows_and_all_of_them",),
            (MINIMUM,),
        ),
        Item(
            "App. D",
            "Search bandit: settings, more results, implications for MDPs",
            ("problems.search_bandit", "problems.contextual_search"),
            ("tests/problems/test_bandits.py", "tests/experiments/test_search_states.py"),
            (WHOLE_ACTION, FORKS),
            "search-states",
        ),
        Item(
            "App. E",
            "Traffic systems: rewards, parameters, hyper-parameters",
            ("problems.traffic.Traffic", "problems.traffic.sumo.TrafficEnv"),
            ("tests/problems/traffic/test_settings.py",),
            (),
            "traffic-3x3",
        ),
    ),
}
"""All items, in the order of the page. Names are relative to `factorax`, departures to `docs/explanation`."""


def claims_of(item: Item, claims: list[Claim]) -> list[Claim]:
    """Return the claims of the paper whose place names an item: "Def. 3.1" is in "Sec. 3, Defs. 3.1 and 3.2"."""
    kind, number = item.label.rsplit(" ", 1)
    names = re.compile(
        rf"\b{re.escape(kind.rstrip('.'))}s?\.? (?:[\w.]+ and )?{re.escape(number)}(?![\w.]*\d|\.\w|[a-z])"
    )
    return [claim for claim in claims if claim.source == "paper" and names.search(claim.where)]


def row(item: Item, claims: list[Claim], figures: dict[str, str]) -> str:
    """Return the row of an item."""
    names = "<br>".join(f"{{py:obj}}`~factorax.{name}`" for name in item.names)
    tests = "<br>".join(f"`{test.removeprefix('tests/').split('::')[-1]}`" for test in item.tests)
    departures = "<br>".join(f"[{heading(anchor)}]({anchor})" for anchor in item.departures)
    verdicts = [f"[{claim.verdict}](claims.md#{claim.experiment})" for claim in claims_of(item, claims)]
    counted = "<br>".join(
        f"{text} ({verdicts.count(text)})" if verdicts.count(text) > 1 else text for text in dict.fromkeys(verdicts)
    )
    what = f"[{item.what}]({figures[item.experiment]}#{item.experiment})" if item.experiment else item.what
    return f"| {item.label} | {what} | {names} | {counted} | {departures} | {tests} |\n"


def heading(anchor: str) -> str:
    """Return the number of the departure that an anchor leads to."""
    page, _, name = anchor.partition("#")
    return sections(page)[name]


def sections(page: str) -> dict[str, str]:
    """Return the anchors of the numbered sections of a page of departures, with their numbers."""
    text = (Path(__file__).parent / "explanation" / page).read_text(encoding="utf-8")
    return {slug(title): number for number, title in re.findall(r"^## (\d+)\. (.*)$", text, re.MULTILINE)}


def slug(title: str) -> str:
    """Return the anchor that a heading has in HTML.

    >>> slug("The precedence of K λ∘ψ")
    'the-precedence-of-k'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def render() -> str:
    """Return the tables of all items."""
    from claims_table import FIGURE_PAGES

    claims = published()
    parts = []
    for title, items in ITEMS.items():
        rows = "".join(row(item, claims, FIGURE_PAGES) for item in items)
        head = "| paper | item | library | claims | departure | test |\n|---|---|---|---|---|---|\n"
        parts.append(f"## {title}\n\n{head}{rows}")
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
