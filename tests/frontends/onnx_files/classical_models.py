"""Models of scikit-learn, XGBoost and LightGBM as their exporters write them.

`python -m tests.frontends.onnx_files.classical_models FOLDER` writes each with its inputs, for
`scripts.models.models_on_engines`.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn import (
    cluster,
    compose,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    gaussian_process,
    impute,
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
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

OPSET = {"": 18, "ai.onnx.ml": 3}
SEED = {"random_state": 0}
FOREST = {"n_estimators": 20, "max_depth": 6, **SEED}


def _piped(*steps: Any) -> Any:
    return pipeline.make_pipeline(*steps)


def _scaled(*steps: Any) -> Any:
    return _piped(preprocessing.StandardScaler(), *steps)


def _logistic() -> Any:
    return linear_model.LogisticRegression(max_iter=500)


def _columns() -> Any:
    bins = preprocessing.KBinsDiscretizer(4, encode="onehot-dense")
    parts = [("scale", preprocessing.StandardScaler(), [0, 1]), ("bins", bins, [2, 3])]
    return compose.ColumnTransformer(parts)


def _two() -> list[tuple[str, Any]]:
    return [("a", naive_bayes.GaussianNB()), ("b", tree.DecisionTreeClassifier(max_depth=3))]


def _of_three_classes() -> dict[str, Any]:
    perceptron = neural_network.MLPClassifier
    return {
        "sgd": linear_model.SGDClassifier(**SEED),
        "ridge": linear_model.RidgeClassifier(),
        "decision tree": tree.DecisionTreeClassifier(**SEED),
        "extra trees": ensemble.ExtraTreesClassifier(**FOREST),
        "ada boost": ensemble.AdaBoostClassifier(n_estimators=10, **SEED),
        "neighbours": neighbors.KNeighborsClassifier(5),
        "gaussian bayes": naive_bayes.GaussianNB(),
        "perceptron": _scaled(perceptron((16, 8), max_iter=300, **SEED)),
        "logistic perceptron": _scaled(perceptron((12, 12), "logistic", max_iter=400, **SEED)),
        "support vectors": _scaled(svm.SVC(**SEED)),
        # Labels are what pairs vote for, and not the most probable ones.
        "probable support vectors": svm.SVC(kernel="sigmoid", probability=True, **SEED),
        "nu support vectors": _scaled(svm.NuSVC(nu=0.2, **SEED)),
        "voting": ensemble.VotingClassifier(_two(), voting="soft", flatten_transform=False),
        "stacking": ensemble.StackingClassifier(_two()),
        "bagging": ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=4), 8, **SEED),
        "columns": _piped(_columns(), _logistic()),
        "imputer": _piped(impute.SimpleImputer(), _scaled(_logistic())),
        "linear discriminant": discriminant_analysis.LinearDiscriminantAnalysis(),
        "quadratic discriminant": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "bernoulli bayes": _piped(preprocessing.Binarizer(threshold=2), naive_bayes.BernoulliNB()),
        "best columns": _piped(feature_selection.SelectKBest(k=2), _logistic()),
        **_of_any_classes(),
    }


def _of_any_classes() -> dict[str, Any]:
    return {
        "logistic": _logistic(),
        "random forest": ensemble.RandomForestClassifier(**FOREST),
        "gradient boosting": ensemble.GradientBoostingClassifier(n_estimators=20, **SEED),
        "xgboost": xgboost.XGBClassifier(n_estimators=10, max_depth=4),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, num_threads=1),
        "lightgbm dart": lightgbm.LGBMClassifier(boosting_type="dart", n_estimators=10, verbose=-1),
    }


def _of_numbers() -> dict[str, Any]:
    bags = {"bagging_freq": 1, "bagging_fraction": 0.7, "verbose": -1}
    perceptron = neural_network.MLPRegressor("squared_error", (16, 8), **SEED)
    return {
        "linear": linear_model.LinearRegression(),
        "elastic net": linear_model.ElasticNet(alpha=0.1),
        "tree": tree.DecisionTreeRegressor(**SEED),
        "forest": ensemble.RandomForestRegressor(**FOREST),
        "gradients": ensemble.GradientBoostingRegressor(n_estimators=20, **SEED),
        "near": neighbors.KNeighborsRegressor(5),
        "numbers of a perceptron": _scaled(perceptron),
        "numbers of vectors": _scaled(svm.SVR()),
        "polynomial": _piped(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
        "components": _piped(decomposition.PCA(4), linear_model.LinearRegression()),
        "gaussian process": gaussian_process.GaussianProcessRegressor(alpha=1.0),
        "huber": _scaled(linear_model.HuberRegressor(max_iter=500)),
        "bayesian ridge": linear_model.BayesianRidge(),
        "lars": linear_model.LassoLars(alpha=0.01),
        "poisson": linear_model.PoissonRegressor(max_iter=500),
        "partial least squares": cross_decomposition.PLSRegression(2),
        "ada boost of numbers": ensemble.AdaBoostRegressor(n_estimators=8, **SEED),
        "lightgbm of numbers": lightgbm.LGBMRegressor(n_estimators=10, verbose=-1, num_threads=1),
        "lightgbm forest": lightgbm.LGBMRegressor(boosting_type="rf", n_estimators=10, **bags),
        "xgboost of numbers": xgboost.XGBRegressor(n_estimators=10, max_depth=4),
        "xgboost dart": xgboost.XGBRegressor(n_estimators=10, max_depth=3, booster="dart"),
        "scaler": preprocessing.StandardScaler(),
        "robust scaler": preprocessing.RobustScaler(),
        "min-max scaler": preprocessing.MinMaxScaler(),
        "max-abs scaler": preprocessing.MaxAbsScaler(),
        "normalizer": preprocessing.Normalizer(),
        "binarizer": preprocessing.Binarizer(threshold=0.1),
        "quantiles": preprocessing.QuantileTransformer(n_quantiles=50, **SEED),
        "powers": preprocessing.PowerTransformer(),
        "singular values": decomposition.TruncatedSVD(3, **SEED),
        "kernel components": _scaled(decomposition.KernelPCA(3, kernel="rbf", **SEED)),
        "means": cluster.KMeans(3, n_init=1, **SEED),
        "isolation forest": ensemble.IsolationForest(n_estimators=20, **SEED),
        "gaussian mixture": mixture.GaussianMixture(3, **SEED),
    }


def _converted(estimator: Any, x: Any, y: Any) -> Any:
    """Fit an estimator and write it as its users do, labels and probabilities as arrays."""
    kinds = [("x", FloatTensorType([None, x.shape[1]]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(x, y)
        if isinstance(estimator, xgboost.XGBModel):
            return convert_xgboost(estimator, initial_types=kinds, target_opset=15)
        if isinstance(estimator, lightgbm.LGBMModel):
            flat = {"zipmap": False} if isinstance(estimator, lightgbm.LGBMClassifier) else {}
            return convert_lightgbm(estimator, initial_types=kinds, target_opset=15, **flat)
        options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "classes_") else None
        return to_onnx(estimator, x[:1], options=options, target_opset=OPSET)


def every() -> Iterator[tuple[str, Any, np.ndarray[Any, Any]]]:
    """Yield name, model and inputs of each: of boosted trees with numbers that lack."""
    for title, load, models in (
        ("of iris", load_iris, _of_three_classes()),
        ("of cancer", load_breast_cancer, _of_any_classes()),
        ("of diabetes", load_diabetes, _of_numbers()),
    ):
        x, y = load(return_X_y=True)
        y = y.astype(np.float32 if y.dtype == np.float64 else np.int64)
        for name, estimator in models.items():
            given = x.astype(np.float32)
            if isinstance(estimator, xgboost.XGBModel | lightgbm.LGBMModel):
                given[::7, 0] = np.nan
            yield f"{name} {title}", _converted(estimator, given, y), given


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, made, given in every():
        path = out / f"{name.replace(' ', '_')}.onnx"
        path.write_bytes(made.SerializeToString())
        np.savez(path.with_suffix(".npz"), input0=given[:16])
