"""surgeon inside Polygraphy: a loader, and an extension of `polygraphy run`.

    from polygraphy.backend.onnx import BytesFromOnnx
    from polygraphy.backend.trt import NetworkFromOnnxBytes
    from surgeon.trt.polygraphy import RewriteOnnx

    network = NetworkFromOnnxBytes(BytesFromOnnx(RewriteOnnx("model.onnx", target="8.4")))

    polygraphy run model.onnx --surgeon-target 8.4 --onnxrt --trt

In the second, ONNX Runtime gets the original model and TensorRT the rewritten one. The entry point group is
`polygraphy.run.plugins`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Concatenate

import onnx
from onnx import ModelProto
from polygraphy import util
from polygraphy.backend.base import BaseLoader
from polygraphy.logger import G_LOGGER
from polygraphy.mod.trt_importer import lazy_import_trt
from polygraphy.tools.args import ModelArgs, TrtLoadEngineArgs, TrtLoadNetworkArgs, TrtLoadPluginsArgs, TrtRunnerArgs
from polygraphy.tools.args.base import BaseArgs
from polygraphy.tools.script import make_invocable

from surgeon.errors import SurgeonError
from surgeon.pipeline.option import P, by_keyword, options_of
from surgeon.pipeline.options import CheckOptions, Options, RewriteOptions
from surgeon.pipeline.session import Result
from surgeon.pipeline.source import Source as Model
from surgeon.trt.rewriting import rewritten
from surgeon.verdict_text import answer, merged

PARSING = ("trt",)  # the runners for which TensorRT parses the model
Source = ModelProto | str | bytes | Callable[[], Any]


def _of_source(
    asked: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[RewriteOnnx, Source, P], None]]:
    return partial(by_keyword, asked)


class RewriteOnnx(BaseLoader):  # type: ignore[misc]
    """A loader that rewrites an ONNX model: `RewriteOnnx(loader, target="8.4")()` is a ModelProto.

    The model is a ModelProto, a path, serialized bytes, or a loader that gives one of these. The options are those of
    `surgeon.rewrite`; without a target it is the installed TensorRT. Raises PolygraphyException where surgeon cannot
    read the model or an option is wrong; a rewrite that was undone is a warning in Polygraphy's log.
    """

    @_of_source(RewriteOptions)
    def __init__(self, model: Source, options: RewriteOptions) -> None:
        self._model = model
        self._options = options

    def call_impl(self) -> ModelProto:
        return self._rewrite().model

    def _rewrite(self) -> Result:
        model, _ = util.invoke_if_callable(self._model)
        if isinstance(model, bytes):
            model = onnx.load_model_from_string(model)
        try:
            result = rewritten(Model(model), Options.checked(self._options))
        except SurgeonError as error:
            G_LOGGER.critical(f"surgeon: {error}")
            raise  # `critical` has raised already
        _log(result)
        return result


class RewrittenOnnxBytes(RewriteOnnx):
    """Like `RewriteOnnx`, and gives serialized bytes."""

    def call_impl(self) -> bytes:  # type: ignore[override]
        return bytes(self._rewrite().model.SerializeToString())


class RewrittenOnnxPath(RewriteOnnx):
    """Like `RewriteOnnx`, and gives the path of a file, with external weights beside it.
    The file goes with the loader."""

    def call_impl(self) -> str:  # type: ignore[override]
        result = self._rewrite()
        self._folder = tempfile.TemporaryDirectory(prefix="surgeon-")
        path = Path(self._folder.name) / "rewritten.onnx"
        result.save(path)
        return str(path)


def _log(result: Result) -> None:
    report = result.report
    if report.applied:
        passes = ", ".join(f"{g.pass_name} {g.times}x" for g in report.groups())
        G_LOGGER.info(f"surgeon: {answer(report)} ({passes})")
    else:
        G_LOGGER.warning(f"surgeon: nothing was rewritten: {answer(report)}")
    for entry in report.undone:
        G_LOGGER.warning(f"surgeon: '{entry.pass_name}' at {entry.node} was undone: {entry.why}")
    for entry in report.untaken:
        G_LOGGER.warning(f"surgeon: the target does not support {entry.node}: {entry.why}")
    for text in merged(report.warnings):
        G_LOGGER.warning(f"surgeon: {text}")


# ---- polygraphy run --------------------------------------------------------------------------------------------------


class SurgeonArgs(BaseArgs):  # type: ignore[misc]
    """
    surgeon: rewriting the model that TensorRT gets, and no other runner.

    Depends on:

        - ModelArgs
        - TrtLoadPluginsArgs
        - TrtLoadNetworkArgs
        - TrtLoadEngineArgs
        - TrtRunnerArgs
    """

    def add_parser_args_impl(self) -> None:
        self.group.add_argument(
            "--surgeon-target",
            metavar="T",
            default=None,
            help="Rewrite the model for this target (8.4, 10.9, rtx, installed) before TensorRT parses it.",
        )
        self.group.add_argument(
            "--surgeon-plugins",
            metavar="NAME",
            nargs="+",
            default=None,
            help="Plugin libraries that the rewritten model may use: surgeon, stock.",
        )
        self.group.add_argument(
            "--surgeon-strategy",
            metavar="PASS=S",
            nargs="+",
            default=None,
            help="keep, decompose or plugin, over the target's own choice.",
        )

    def parse_impl(self, args: Any) -> None:
        """
        Parses command-line arguments and populates the following attributes:

        Attributes:
            options (Dict[str, Any]): the options of surgeon.rewrite; None where nothing is to be rewritten
        """
        self.options = _options(args.surgeon_target, args.surgeon_plugins, args.surgeon_strategy)
        self._run_engines_of_old_versions()
        if self.options is None:
            return
        self._stand_before_the_parser()
        runners = getattr(args, "runners", None) or []
        if not any(runner in PARSING for runner in runners):
            G_LOGGER.warning(
                f"--surgeon-target {self.options['target']} does nothing: it rewrites the model that TensorRT gets, "
                "and there is no --trt. `surgeon rewrite` writes a model for any runner."
            )
        kind = self.arg_groups[ModelArgs].model_type
        if kind is not None and not kind.is_onnx():
            G_LOGGER.warning(
                f"--surgeon-target {self.options['target']} does nothing: no parser reads a model of the type '{kind}'."
            )

    def _run_engines_of_old_versions(self) -> None:
        """Polygraphy's own TrtRunner needs TensorRT 8.5: before it, surgeon's takes its place, without its options."""
        group = self.arg_groups[TrtRunnerArgs]
        original = group.add_to_script_impl

        def add_to_script_impl(script: Any) -> None:
            trt = lazy_import_trt()
            if not trt.is_importable() or hasattr(trt, "TensorIOMode"):
                original(script)
                return
            script.add_import(imports=["BindingsRunner"], frm="surgeon.trt.runners")
            engine = self.arg_groups[TrtLoadEngineArgs].add_to_script(script)
            script.add_runner(make_invocable("BindingsRunner", engine))

        group.add_to_script_impl = add_to_script_impl

    def _stand_before_the_parser(self) -> None:
        """Every ONNX model on its way to TensorRT's parser passes TrtLoadPluginsArgs last:
        Polygraphy has no other place.

        Networks and engines pass there too, later: what TrtLoadNetworkArgs hands over is the model.
        """
        plugins, model = self.arg_groups[TrtLoadPluginsArgs], self.arg_groups[ModelArgs]
        network = self.arg_groups[TrtLoadNetworkArgs]
        original, original_network = plugins.add_to_script_impl, network.add_to_script_impl
        parsing = False

        def add_network_to_script_impl(*args: Any, **kwargs: Any) -> Any:
            nonlocal parsing
            parsing = True
            try:
                return original_network(*args, **kwargs)
            finally:
                parsing = False

        def add_to_script_impl(script: Any, loader_name: Any) -> Any:
            if not parsing:
                return original(script, loader_name)
            loader = "RewrittenOnnxPath" if loader_name == model.path else "RewrittenOnnxBytes"
            script.add_import(imports=[loader], frm="surgeon.trt.polygraphy")
            text = make_invocable(loader, loader_name, **(self.options or {}))
            return original(script, script.add_loader(text, "rewrite_onnx"))

        plugins.add_to_script_impl = add_to_script_impl
        network.add_to_script_impl = add_network_to_script_impl


def _options(
    target: str | None, plugins: Sequence[str] | None, strategy: Sequence[str] | None
) -> Mapping[str, Any] | None:
    if target is None:
        if plugins or strategy:
            G_LOGGER.critical("--surgeon-plugins and --surgeon-strategy need --surgeon-target.")
        return None
    try:
        strategies = options_of(CheckOptions)["strategy"].kind.value(strategy or (), "--surgeon-strategy")
    except SurgeonError as error:
        G_LOGGER.critical(str(error))
        raise  # `critical` has raised already
    return {"target": target, "plugins": list(plugins or ()), "strategy": strategies}


def export_argument_groups() -> list[BaseArgs]:
    """The argument groups that `polygraphy run` adds: what the entry point names."""
    return [SurgeonArgs()]
