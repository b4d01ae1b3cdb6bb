"""Policy-gradient estimators, baselines, and reports of variance and bias. Needs JAX."""

from .._lazy import lazy_imports

with lazy_imports(__name__):
    from .baselines import leave_one_out as leave_one_out
    from .baselines import running_value as running_value
    from .baselines import separable_baseline as separable_baseline
    from .baselines import substituted_baseline as substituted_baseline
    from .bias import BiasReport as BiasReport
    from .bias import bias_report as bias_report
    from .counterfactual import coma as coma
    from .counterfactual import difference_returns as difference_returns
    from .estimators import factored as factored
    from .estimators import natural as natural
    from .estimators import vanilla as vanilla
    from .expectations import Estimate as Estimate
    from .expectations import joint_actions as joint_actions
    from .optimal import FittedBaseline as FittedBaseline
    from .optimal import least_squares_baseline as least_squares_baseline
    from .optimal import tabular_features as tabular_features
    from .optimal import wu_baseline as wu_baseline
    from .scores import ProductFormError as ProductFormError
    from .scores import check_product_form as check_product_form
    from .scores import score_matrix as score_matrix
    from .variance import VarianceReport as VarianceReport
    from .variance import gradient_variance as gradient_variance
    from .variance import nonnegative_translation as nonnegative_translation
    from .variance import variance_report as variance_report
