"""Exports models of LightGBM, XGBoost and scikit-learn that no other test has, as their users do.

`python write_onnx.py FOLDER` writes NAME.onnx and NAME.npz: of each call its inputs (`CALL/in/N`)
and what the library itself predicts (`CALL/out/NAME`), or what ONNX Runtime computes of the file
where the library has no such result, or where its converter wrote another model (printed). Runs
where these libraries are installed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inputs
import lightgbm
import numpy as np
import onnxruntime
import xgboost
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn import (
    compose,
    cross_decomposition,
    datasets,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    kernel_approximation,
    linear_model,
    mixture,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

type Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

OPSET = {"": 18, "ai.onnx.ml": 3}
ROWS = 16


def scaled(*steps: Any) -> Any:
    return pipeline.make_pipeline(preprocessing.StandardScaler(), *steps)


def classifiers() -> dict[str, Any]:
    columns = compose.ColumnTransformer(
        [
            ("scale", preprocessing.StandardScaler(), [0, 1]),
            ("bins", preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), [2, 3]),
        ]
    )
    return {
        "columns": pipeline.make_pipeline(columns, linear_model.LogisticRegression()),
        "imputer": pipeline.make_pipeline(
            impute.SimpleImputer(), scaled(linear_model.LogisticRegression())
        ),
        "linear_discriminant": discriminant_analysis.LinearDiscriminantAnalysis(),
        "quadratic_discriminant": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "hist_boosting": ensemble.HistGradientBoostingClassifier(max_iter=15),
        "bagging": ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=4), 8),
        "stacking": ensemble.StackingClassifier(
            [("a", naive_bayes.GaussianNB()), ("b", tree.DecisionTreeClassifier(max_depth=3))]
        ),
        "linear_svc": scaled(svm.LinearSVC()),
        "nu_svc": scaled(svm.NuSVC(nu=0.2)),
        "mlp_logistic": scaled(neural_network.MLPClassifier((12, 12), "logistic", max_iter=400)),
        "bernoulli_bayes": pipeline.make_pipeline(
            preprocessing.Binarizer(threshold=2.0), naive_bayes.BernoulliNB()
        ),
        "select_k": pipeline.make_pipeline(
            feature_selection.SelectKBest(k=2), linear_model.LogisticRegression()
        ),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=20, verbose=-1),
        "lightgbm_dart": lightgbm.LGBMClassifier(n_estimators=10, boosting_type="dart", verbose=-1),
        "xgboost": xgboost.XGBClassifier(n_estimators=20, max_depth=4),
    }


def regressors() -> dict[str, Any]:
    return {
        "huber": scaled(linear_model.HuberRegressor(max_iter=500)),
        "bayesian_ridge": linear_model.BayesianRidge(),
        "lars": linear_model.LassoLars(alpha=0.01),
        "poisson": linear_model.PoissonRegressor(max_iter=500),
        "partial_least_squares": cross_decomposition.PLSRegression(2),
        "hist_boosting_regression": ensemble.HistGradientBoostingRegressor(max_iter=15),
        "ada_boost_regression": ensemble.AdaBoostRegressor(n_estimators=8),
        "radius_neighbours": scaled(neighbors.RadiusNeighborsRegressor(4.0)),
        "nystroem": scaled(kernel_approximation.Nystroem(n_components=16), linear_model.Ridge()),
        "lightgbm_regression": lightgbm.LGBMRegressor(n_estimators=20, verbose=-1),
        "lightgbm_forest": lightgbm.LGBMRegressor(
            n_estimators=10, boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, verbose=-1
        ),
        "xgboost_regression": xgboost.XGBRegressor(n_estimators=20, max_depth=4),
        "xgboost_missing": xgboost.XGBRegressor(n_estimators=10, max_depth=3, booster="dart"),
    }


def transformers() -> dict[str, Any]:
    return {
        "quantile_transform": preprocessing.QuantileTransformer(n_quantiles=50),
        "power_transform": preprocessing.PowerTransformer(),
        "max_abs": preprocessing.MaxAbsScaler(),
        "truncated_svd": decomposition.TruncatedSVD(3),
        "kernel_pca": scaled(decomposition.KernelPCA(3, kernel="rbf")),
        "isolation_forest": ensemble.IsolationForest(n_estimators=20),
        "gaussian_mixture": mixture.GaussianMixture(3),
    }


def converted(model: Any, x: np.ndarray[Any, Any]) -> Any:
    kinds = [("x", FloatTensorType([None, x.shape[1]]))]
    if isinstance(model, lightgbm.LGBMModel):
        options = {"zipmap": False} if hasattr(model, "predict_proba") else {}
        return convert_lightgbm(model, initial_types=kinds, target_opset=15, **options)
    if isinstance(model, xgboost.XGBModel):
        return convert_xgboost(model, initial_types=kinds, target_opset=15)
    try:
        return to_onnx(model, x[:1], options={id(model): {"zipmap": False}}, target_opset=OPSET)
    except NameError:  # it has no such option: it returns no dictionaries
        return to_onnx(model, x[:1], target_opset=OPSET)


def predicted(model: Any, names: list[str], x: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What the library predicts, by the names of the exported results."""
    first: Callable[..., Any] = getattr(model, "predict", None) or model.transform
    made = {names[0]: np.asarray(first(x))}
    if hasattr(model, "predict_proba") and len(names) > 1:
        made[names[1]] = np.asarray(model.predict_proba(x))
    return made


def is_close(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    return found.shape == expected.shape and np.allclose(
        found, expected, rtol=1e-3, atol=1e-4, equal_nan=True
    )


def write(folder: Path, name: str, model: Any, data: Pair) -> None:
    x, y = data[0].astype(np.float32), data[1]
    model.fit(x, y)
    made = converted(model, x)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    name_of_input = session.get_inputs()[0].name
    names = [output.name for output in session.get_outputs()]
    recorded: dict[str, Any] = {}
    differs: set[str] = set()
    for call, (values,) in inputs.every([x[:ROWS]], [x[-ROWS:]]).items():
        recorded[f"{call}/in/000"] = values
        try:
            of_library = predicted(model, names, values)
        except ValueError:
            continue  # most of scikit-learn refuses NaN and infinities
        of_file = dict(zip(names, session.run(names, {name_of_input: values}), strict=True))
        for key, expected in of_file.items():
            value = of_library.get(key, expected).reshape(expected.shape).astype(expected.dtype)
            if not is_close(value, expected):
                differs.add(key)
            recorded[f"{call}/out/{key}"] = value
        recorded |= {f"{call}/out/{key}": of_file[key] for key in differs}
    if differs:
        print(name, "converted to another model:", *sorted(differs), flush=True)
    np.savez(folder / f"{name}.npz", **recorded)
    (folder / f"{name}.onnx").write_bytes(made.SerializeToString())


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    iris, diabetes = (
        load(return_X_y=True) for load in (datasets.load_iris, datasets.load_diabetes)
    )
    for kinds, data in (
        (classifiers, iris),
        (regressors, diabetes),
        (transformers, diabetes),
    ):
        for name, model in kinds().items():
            try:
                write(folder, f"ml_{name}", model, data)
                print(name, "written", flush=True)
            except Exception as error:  # noqa: BLE001  what has no converter is told
                print(name, "not exported:", str(error).splitlines()[0][:200], flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
