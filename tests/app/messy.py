"""Files as people have them, made from a seed: German decimals, ids, dates, copies, groups."""

import numpy as np
import pandas as pd


def german(rng, m=300):
    """Semicolons, decimal commas, thousands with points, umlauts in Windows-1252."""
    area, floor = rng.uniform(30, 120, m), rng.integers(0, 6, m)
    ort = rng.choice(["München", "Köln", "Würzburg"], m)
    rent = 200 + 11 * area + 150 * (ort == "München") + 40 * rng.normal(size=m)

    def comma(values, digits):
        return [f"{v:,.{digits}f}".translate(str.maketrans(",.", ".,")) for v in values]

    frame = pd.DataFrame(
        {"Fläche": comma(area, 1), "Stock": floor, "Ort": ort, "Miete": comma(rent, 2)}
    )
    return frame.to_csv(index=False, sep=";").encode("cp1252")


def missing_targets(rng, m=250):
    """A target and features that are often missing, in several spellings."""
    x = rng.normal(size=(m, 3))
    y = x[:, 0] - 2 * x[:, 1] + x[:, 2] + 0.5 * rng.normal(size=m)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y}).round(3).astype(object)
    frame.loc[rng.random(m) < 0.2, "y"] = "NA"
    frame.loc[rng.random(m) < 0.1, "a"] = "n/a"
    frame.loc[rng.random(m) < 0.1, "b"] = ""
    frame.loc[rng.random(m) < 0.06, "c"] = -999
    return frame.to_csv(index=False).encode()


def ids(rng, m=200):
    """A row number, a code with leading zeros, and temperatures 1 … m in shuffled order."""
    temperature = rng.permutation(np.arange(1, m + 1))
    frame = pd.DataFrame(
        {
            "id": np.arange(1, m + 1),
            "plz": [f"{i:05d}" for i in rng.choice([1067, 4109, 99084], m)],
            "uuid": [f"{i:032x}" for i in rng.integers(0, 2**62, m)],
            "temperature": temperature,
            "growth": (0.1 * temperature + rng.normal(size=m)).round(2),
        }
    )
    return frame.to_csv(index=False).encode()


def dates(rng, m=400):
    """A daily series with a trend and a yearly wave, rows in random order."""
    day = pd.date_range("2022-01-01", periods=m)
    t = np.arange(m)
    sales = 50 + 0.1 * t + 12 * np.sin(2 * np.pi * t / 365) + 4 * rng.normal(size=m)
    frame = pd.DataFrame(
        {"date": day.strftime("%d.%m.%Y"), "promo": rng.integers(0, 2, m), "sales": sales.round(1)}
    )
    frame.loc[frame.promo == 1, "sales"] += 8
    return frame.sample(frac=1, random_state=0).to_csv(index=False).encode()


def text(rng, m=300):
    """Free text with quotes, delimiters and line breaks in it."""
    good = rng.choice(["lovely", "great, really", 'would "buy" again', "fine"], m)
    bad = rng.choice(["awful", "broke\nafter a day", "refund, please", "poor"], m)
    liked = rng.random(m) < 0.5
    words = [f"{a} no. {i}" for i, a in enumerate(np.where(liked, good, bad))]
    stars = np.where(liked, 4, 2) + rng.integers(-1, 2, m)
    price = rng.uniform(5, 50, m).round(2)
    return (
        pd.DataFrame({"review": words, "price": price, "stars": stars}).to_csv(index=False).encode()
    )


def copies(rng, m=240):
    """A third of the rows copied, as by a join that went wrong."""
    x = rng.normal(size=(m, 4))
    y = x[:, 0] + 1.5 * rng.normal(size=m)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(y=y).round(4)
    both = pd.concat([frame, frame.iloc[: m // 2]]).sample(frac=1, random_state=1)
    return both.to_csv(index=False).encode()


def series(rng, m=300):
    """A random walk with its own past as a feature, in the order of the file."""
    walk = np.cumsum(rng.normal(size=m))
    frame = pd.DataFrame({"wind": rng.normal(size=m), "level": 20 + walk}).round(3)
    frame["hour"] = np.arange(m) % 24
    return frame.to_csv(index=False).encode()


def groups(rng, n=40, each=6):
    """Flats in buildings with a level of their own, which the year of building gives away."""
    rows = []
    for building in range(n):
        built, district = int(rng.integers(1900, 2020)), rng.choice(["centre", "north", "harbour"])
        level = 60 * rng.normal() + {"centre": 180, "north": 0, "harbour": 90}[district]
        for _ in range(each):
            area = rng.uniform(30, 120)
            rent = 250 + 9 * area + level + 0.8 * (built - 1960) + 25 * rng.normal()
            rows.append((f"B{building:02d}", round(area), built, district, round(rent)))
    columns = ["building", "area", "built", "district", "rent"]
    return pd.DataFrame(rows, columns=columns).to_csv(index=False).encode()


def imbalanced(rng, m=4000):
    """Two classes, one of them in 7 % of the rows, and a column that is known only afterwards."""
    x = rng.normal(size=(m, 5))
    score = 1.6 * x[:, 0] - x[:, 1] * x[:, 2] + rng.normal(size=m)
    fraud = score > np.quantile(score, 0.93)
    frame = pd.DataFrame(x, columns=[f"v{i}" for i in range(5)]).round(4)
    return frame.assign(fraud=np.where(fraud, "yes", "no")).to_csv(index=False).encode()


FILES = {
    "german": (german, ["--target", "Miete"]),
    "missing": (missing_targets, ["--target", "y"]),
    "ids": (ids, ["--target", "growth"]),
    "dates": (dates, ["--target", "sales"]),
    "text": (text, ["--target", "stars"]),
    "copies": (copies, ["--target", "y"]),
    "series": (series, ["--target", "level"]),
    "groups": (groups, ["--target", "rent"]),
    "imbalanced": (imbalanced, ["--target", "fraud"]),
}


def write(folder, name, seed=0, **sizes):
    """Write one of the files and return the arguments that ask about it."""
    make, arguments = FILES[name]
    path = folder / f"{name}.csv"
    path.write_bytes(make(np.random.default_rng(seed), **sizes))
    return ["cv", str(path), *arguments]
