"""Films of cities by name: which city, who plays, and what is refused."""

import pytest
from factorax_traffic.city_film import city_of, is_city, write_city_film

OPTIONS = {"seconds": 20, "speed": 10, "sampled": False, "seed": 0}


def test_which_problems_are_cities():
    assert is_city("resco:cologne8")
    assert is_city("sumo:a.net.xml,a.rou.xml,begin=3")
    assert not is_city("sumo:a.net.xml,a.rou.xml,actions=switch")
    assert not is_city("sumo:3x3")
    assert not is_city("traffic:3x3")


def test_the_city_of_a_film():
    assert city_of(["greedy"], "resco:cologne8") == "resco:cologne8"
    assert city_of(["greedy"], "own") == ""
    assert city_of(["gap-out", "nobody"], None) == ""


def test_what_is_refused(tmp_path):
    gif = tmp_path / "film.gif"
    with pytest.raises(ValueError, match=r"what: got \['greedy', 'greedy'\], want different"):
        write_city_film(["greedy", "greedy"], gif, "resco:cologne8", **OPTIONS)
    with pytest.raises(FileNotFoundError, match=r"what: got 'gredy'.*did you mean greedy"):
        write_city_film(["gredy"], gif, "resco:cologne8", **OPTIONS)


def test_a_folder_from_a_stranger_opens_no_files(tmp_path, monkeypatch):
    city = "sumo:/a/town.net.xml,/a/town.rou.xml"
    config = {"problem": city, "network": "own", "config": {}}
    monkeypatch.setattr("factorax_traffic.city_film.read_config", lambda run: config)
    monkeypatch.setattr("factorax.runs.folder.read_config", lambda run: config)
    monkeypatch.setattr("factorax_traffic.city_film.find_problem", lambda name: pytest.fail("opened"))
    run = tmp_path / "run"
    run.mkdir()
    assert city_of(["greedy", str(run)], "own") == city
    with pytest.raises(ValueError, match="--problem"):
        write_city_film(["greedy", str(run)], tmp_path / "film.gif", city, **OPTIONS, trusted="own")
