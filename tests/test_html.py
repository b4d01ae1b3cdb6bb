"""Texts of others inside pages: they stay texts."""

import json

import pytest

from factorax._html import content_security_policy, script_json

HOSTILE = ["</script><img src=x onerror=alert(1)>", "<!--", "\u2028\u2029", "a & b", "\ud800", "\"'`", "]]>"]


@pytest.mark.parametrize("text", HOSTILE)
def test_script_json_escapes_html(text):
    embedded = script_json({"name": [text]})
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded)["name"] == [text.encode(errors="replace").decode()]


def test_script_json_refuses_nan():
    with pytest.raises(ValueError, match=r"not JSON compliant|Out of range"):
        script_json([float("nan")])


def test_content_security_policy_allows_only_our_scripts():
    policy = content_security_policy(["let a = 1"], ["p {}"])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert content_security_policy(["let a = 2"], ["p {}"]) != policy
