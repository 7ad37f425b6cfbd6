"""gRPC messages of the Open Inference Protocol, package `inference`, and its repository API.

They are built from a table of fields, in a pool of their own: this works with any release of
protobuf, beside clients of the protocol in the same process. Names and numbers:
https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

_PARAMETERS = "map InferParameter parameters"
_REPOSITORY_PARAMETERS = "map ModelRepositoryParameter parameters"
_TENSOR = ("string name", "string datatype", "many int64 shape")

MESSAGES: dict[str, tuple[str, ...]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": ("bool live",),
    "ServerReadyRequest": (),
    "ServerReadyResponse": ("bool ready",),
    "ModelReadyRequest": ("string name", "string version"),
    "ModelReadyResponse": ("bool ready",),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": ("string name", "string version", "many string extensions"),
    "ModelMetadataRequest": ("string name", "string version"),
    "ModelMetadataResponse.TensorMetadata": _TENSOR,
    "ModelMetadataResponse": (
        "string name",
        "many string versions",
        "string platform",
        "many ModelMetadataResponse.TensorMetadata inputs",
        "many ModelMetadataResponse.TensorMetadata outputs",
    ),
    "InferParameter": (
        "one bool bool_param",
        "one int64 int64_param",
        "one string string_param",
        "one double double_param",
        "one uint64 uint64_param",
    ),
    "InferTensorContents": (
        "many bool bool_contents",
        "many int32 int_contents",
        "many int64 int64_contents",
        "many uint32 uint_contents",
        "many uint64 uint64_contents",
        "many float fp32_contents",
        "many double fp64_contents",
        "many bytes bytes_contents",
    ),
    "ModelInferRequest.InferInputTensor": (*_TENSOR, _PARAMETERS, "InferTensorContents contents"),
    "ModelInferRequest.InferRequestedOutputTensor": ("string name", _PARAMETERS),
    "ModelInferRequest": (
        "string model_name",
        "string model_version",
        "string id",
        _PARAMETERS,
        "many ModelInferRequest.InferInputTensor inputs",
        "many ModelInferRequest.InferRequestedOutputTensor outputs",
        "many bytes raw_input_contents",
    ),
    "ModelInferResponse.InferOutputTensor": (*_TENSOR, _PARAMETERS, "InferTensorContents contents"),
    "ModelInferResponse": (
        "string model_name",
        "string model_version",
        "string id",
        _PARAMETERS,
        "many ModelInferResponse.InferOutputTensor outputs",
        "many bytes raw_output_contents",
    ),
    "ModelRepositoryParameter": (
        "one bool bool_param",
        "one int64 int64_param",
        "one string string_param",
        "one bytes bytes_param",
    ),
    "RepositoryIndexRequest": ("string repository_name", "bool ready"),
    "RepositoryIndexResponse.ModelIndex": (
        "string name",
        "string version",
        "string state",
        "string reason",
    ),
    "RepositoryIndexResponse": ("many RepositoryIndexResponse.ModelIndex models",),
    "RepositoryModelLoadRequest": (
        "string repository_name",
        "string model_name",
        _REPOSITORY_PARAMETERS,
    ),
    "RepositoryModelLoadResponse": (),
    "RepositoryModelUnloadRequest": (
        "string repository_name",
        "string model_name",
        _REPOSITORY_PARAMETERS,
    ),
    "RepositoryModelUnloadResponse": (),
}
"""Fields in the order of their numbers, from 1 on. `many`: repeated.  `map`: from a string to that
message.  `one`: of which at most one is there.
"""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64")


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="aotc/open_inference.proto", package=PACKAGE, syntax="proto3"
    )
    made: dict[str, Any] = {}

    def message(full: str) -> Any:
        if full not in made:
            outer, _, name = full.rpartition(".")
            siblings = message(outer).nested_type if outer else file.message_type
            made[full] = siblings.add(name=name)
        return made[full]

    for full, fields in MESSAGES.items():
        found = message(full)
        for number, text in enumerate(fields, start=1):
            _add_field(found, full, number, text)
    return file


def _add_field(message: Any, full: str, number: int, text: str) -> None:
    *words, kind, name = text.split()
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if "many" in words or "map" in words:
        field.label = _Field.LABEL_REPEATED
    if "map" in words:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
        _set_kind(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), kind)
        kind = f"{full}.{entry.name}"
    if "one" in words:
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    _set_kind(field, kind)


def _set_kind(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(_file().SerializeToString())


def message(name: str) -> Any:
    """Return the class of a message."""
    found = _POOL.FindMessageTypeByName(f"{PACKAGE}.{name}")
    return message_factory.GetMessageClass(found)


InferRequest = message("ModelInferRequest")
InferResponse = message("ModelInferResponse")
MetadataResponse = message("ModelMetadataResponse")
IndexResponse = message("RepositoryIndexResponse")
