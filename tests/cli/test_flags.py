"""Settings on the command line are checked by `Config`, with its messages."""

import pytest
import tyro
from learning.bad_settings import BAD

from factorax.cli.flags import Flags
from factorax.learning import Config


def parse(*arguments):
    return tyro.cli(tyro.conf.OmitArgPrefixes[Flags], args=[str(each) for each in arguments])


def flags(settings):
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            yield flag if value else f"--no-{flag[2:]}"
        else:
            yield from (flag, *(value if isinstance(value, tuple) else [value]))


def typed(settings):
    """Whether this mistake can be typed at all: flags are texts, and booleans have two flags."""
    kinds = {name: "bool" in str(field.type) for name, field in Config.__dataclass_fields__.items()}
    for name, value in settings.items():
        if kinds[name] != isinstance(value, bool) or name == "ray_address":  # any text is an address
            return False
        if (
            value is None
            or callable(value)
            or (isinstance(value, bool | list | str) and not kinds[name] and name not in CHOICES)
        ):
            return False
    return True


CHOICES = {"objective", "estimator", "policy", "critic", "bootstrap", "covariance", "bounded", "rollouts", "device"}
TYPED = [(settings, message) for settings, message in BAD if typed(settings)]


def test_most_of_the_bad_settings_can_be_typed():
    assert len(TYPED) > 45


@pytest.mark.parametrize(
    ("settings", "message"), TYPED, ids=[f"{i}-{next(iter(settings))}" for i, (settings, _) in enumerate(TYPED)]
)
def test_bad_settings_are_refused(settings, message):
    if settings == {"hidden": 64}:
        pytest.skip("one number is a sequence on the command line")
    parsed = parse(*flags(settings))
    with pytest.raises(ValueError, match="^" + next(iter(settings))) as error:
        _ = parsed.config
    assert message in str(error.value)


def test_what_is_typed_is_what_is_meant():
    arguments = "--hidden 32 16 --seed None --target-kl 0.02 --clip-range-vf none --anneal ent_coef --overlap --gamma 1"
    config = parse(*arguments.split()).config
    assert (config.hidden, config.target_kl, config.clip_range_vf) == ((32, 16), 0.02, None)
    assert (config.anneal, config.overlap, config.gamma) == (("ent_coef",), True, 1.0)
    assert isinstance(config.seed, int)
    assert parse("--hidden").config.hidden == ()
    assert parse().config == Config()


def test_defaults_can_be_others():
    default = Flags.from_config(Config(n_envs=2, gamma=0.5))
    parsed = tyro.cli(tyro.conf.OmitArgPrefixes[Flags], default=default, args=["--gamma", "0.7"])
    assert (parsed.config.n_envs, parsed.config.gamma) == (2, 0.7)


def test_help_shows_choices_and_defaults(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    shown = capsys.readouterr().out
    for text in ("--objective {ppo,a2c,natural}", "--learning-rate FLOAT", "--target-kl FLOAT|None", "default: 0.0003"):
        assert text in shown
