"""Models of scikit-learn, XGBoost and LightGBM as their exporters write them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn import (
    cluster,
    decomposition,
    ensemble,
    gaussian_process,
    linear_model,
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


def _classifiers() -> dict[str, Any]:
    scaled = preprocessing.StandardScaler
    return {
        "logistic": linear_model.LogisticRegression(max_iter=500),
        "sgd": linear_model.SGDClassifier(random_state=0),
        "ridge": linear_model.RidgeClassifier(),
        "decision tree": tree.DecisionTreeClassifier(random_state=0),
        "random forest": ensemble.RandomForestClassifier(20, random_state=0, max_depth=6),
        "extra trees": ensemble.ExtraTreesClassifier(20, random_state=0, max_depth=6),
        "gradient boosting": ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0),
        "ada boost": ensemble.AdaBoostClassifier(n_estimators=10, random_state=0),
        "neighbours": neighbors.KNeighborsClassifier(5),
        "gaussian bayes": naive_bayes.GaussianNB(),
        "perceptron": pipeline.make_pipeline(
            scaled(), neural_network.MLPClassifier((16, 8), max_iter=300, random_state=0)
        ),
        "support vectors": pipeline.make_pipeline(scaled(), svm.SVC(random_state=0)),
        # Labels are what pairs vote for, and not the most probable ones.
        "probable support vectors": svm.SVC(kernel="sigmoid", probability=True, random_state=0),
        "voting": ensemble.VotingClassifier(
            [
                ("a", linear_model.LogisticRegression(max_iter=500)),
                ("b", tree.DecisionTreeClassifier(random_state=0, max_depth=3)),
            ],
            voting="soft",
            flatten_transform=False,
        ),
    }


def _regressors() -> dict[str, Any]:
    scaled = preprocessing.StandardScaler
    return {
        "linear": linear_model.LinearRegression(),
        "elastic net": linear_model.ElasticNet(alpha=0.1),
        "decision tree": tree.DecisionTreeRegressor(random_state=0),
        "random forest": ensemble.RandomForestRegressor(20, random_state=0, max_depth=6),
        "gradient boosting": ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0),
        "neighbours": neighbors.KNeighborsRegressor(5),
        "perceptron": pipeline.make_pipeline(
            scaled(),
            neural_network.MLPRegressor("squared_error", (16, 8), random_state=0),
        ),
        "support vectors": pipeline.make_pipeline(scaled(), svm.SVR()),
        "polynomial": pipeline.make_pipeline(
            preprocessing.PolynomialFeatures(2), linear_model.Ridge()
        ),
        "components": pipeline.make_pipeline(decomposition.PCA(4), linear_model.LinearRegression()),
        "gaussian process": gaussian_process.GaussianProcessRegressor(alpha=1.0),
    }


def _transformers() -> dict[str, Any]:
    return {
        "scaler": preprocessing.StandardScaler(),
        "robust scaler": preprocessing.RobustScaler(),
        "min-max scaler": preprocessing.MinMaxScaler(),
        "normalizer": preprocessing.Normalizer(),
        "binarizer": preprocessing.Binarizer(threshold=0.1),
        "means": cluster.KMeans(3, random_state=0, n_init=1),
    }


type Model = tuple[str, Callable[[], Any], np.ndarray[Any, Any]]


def scikit_learn() -> Iterator[Model]:
    """Name, maker and inputs of each model."""
    from skl2onnx import to_onnx

    def made(estimator: Any, x: Any, y: Any) -> Callable[[], Any]:
        def make() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.fit(x, y)
                options = None
                if hasattr(estimator, "classes_"):
                    options = {id(estimator): {"zipmap": False}}
                return to_onnx(estimator, x[:1], options=options, target_opset=OPSET)

        return make

    iris, cancer, diabetes = (
        load(return_X_y=True) for load in (load_iris, load_breast_cancer, load_diabetes)
    )
    for name, estimator in _classifiers().items():
        x, y = (part.astype(kind) for part, kind in zip(iris, (np.float32, np.int64), strict=True))
        yield f"sklearn {name} of 3", made(estimator, x, y), x
    for name, estimator in _classifiers().items():
        if name in ("logistic", "gradient boosting", "random forest"):
            x, y = cancer[0].astype(np.float32), cancer[1].astype(np.int64)
            yield f"sklearn {name} of 2", made(estimator, x, y), x
    for name, estimator in _regressors().items():
        x, y = diabetes[0].astype(np.float32), diabetes[1].astype(np.float32)
        yield f"sklearn {name} regression", made(estimator, x, y), x
    for name, estimator in _transformers().items():
        x, y = diabetes[0].astype(np.float32), diabetes[1].astype(np.float32)
        yield f"sklearn {name}", made(estimator, x, y), x


def boosted() -> Iterator[Model]:
    """Models of XGBoost and LightGBM, by onnxmltools."""
    import lightgbm
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    def made(estimator: Any, x: Any, y: Any, convert: Any, **options: Any) -> Callable[[], Any]:
        def make() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.fit(x, y)
                kinds = [("x", FloatTensorType([None, x.shape[1]]))]
                return convert(estimator, initial_types=kinds, target_opset=15, **options)

        return make

    iris, cancer, diabetes = (
        load(return_X_y=True) for load in (load_iris, load_breast_cancer, load_diabetes)
    )
    for title, (x, y), kind in (
        ("of 3", iris, "Classifier"),
        ("of 2", cancer, "Classifier"),
        ("regression", diabetes, "Regressor"),
    ):
        x = x.astype(np.float32)
        missing = x.copy()
        missing[::7, 0] = np.nan
        xgb = getattr(xgboost, f"XGB{kind}")(n_estimators=10, max_depth=4)
        yield f"xgboost {title}", made(xgb, missing, y, convert_xgboost), missing
        lgb = getattr(lightgbm, f"LGBM{kind}")(n_estimators=10, verbose=-1, num_threads=1)
        yield (
            f"lightgbm {title}",
            made(lgb, missing, y, convert_lightgbm, **({"zipmap": False} if "C" in kind else {})),
            missing,
        )


def every() -> list[Model]:
    """All of them."""
    return [*scikit_learn(), *boosted()]
