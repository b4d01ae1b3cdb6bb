"""Texts of others inside pages: they stay texts."""

import json

import pytest

from factorax._html import content_security_policy, script_json

HOSTILE = ["</script><img src=x onerror=alert(1)>", "<!--", "\u2028\u2029", "a & b", "\ud800", "\"'`", "]]>"]


@pytest.mark.parametrize("text", HOSTILE)
def test_json_in_a_script_is_the_same_data_and_ends_no_element(text):
    embedded = script_json({"name": [text]})
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded)["name"] == [text.encode(errors="replace").decode()]


def test_numbers_that_json_lacks_are_refused():
    with pytest.raises(ValueError, match=r"not JSON compliant|Out of range"):
        script_json([float("nan")])


def test_a_policy_names_our_scripts_by_their_content_and_allows_no_other():
    policy = content_security_policy(["let a = 1"], ["p {}"])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert content_security_policy(["let a = 2"], ["p {}"]) != policy
