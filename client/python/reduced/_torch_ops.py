"""reduced::reduce and reduced::add_by_key, operations of PyTorch: they have a shape without data, so that torch.compile keeps them, and
gradients of sums, means, variances, deviations and norms. Calls that need neither go straight to the library."""
from typing import Any, Callable, List, Optional

GRADIENTS = ("sum", "mean", "var", "std", "norm2")


class _Lines:
    """Spreads a value of each line over its elements."""

    def __init__(self, shape: List[int], dims: List[int], keepdim: bool):
        self.shape, self.dims, self.keepdim = shape, dims, keepdim

    def __call__(self, value: Any) -> Any:
        if not self.keepdim:
            for d in sorted(self.dims):
                value = value.unsqueeze(d)
        return value.expand(self.shape)


def _gradient(op: str, x: Any, found: Any, given: Any, lines: _Lines, n: int, correction: int) -> Any:
    """That of x. `found`: the results; `given`: their gradients."""
    if op == "sum":
        return lines(given)
    if op == "mean":
        return lines(given / n)
    if op == "norm2":
        return x * lines((given / found).masked_fill(found == 0, 0))
    import torch  # type: ignore[import-not-found,unused-ignore]
    centred = x - lines(torch.ops.reduced.reduce(x.detach(), "mean", lines.dims, lines.keepdim, None, "propagate", 0))
    scale = given * 2 / (n - correction) if op == "var" else (given / (found * (n - correction))).masked_fill(found == 0, 0)
    return centred * lines(scale)


def _register_add(add: Callable[..., Any]) -> None:
    import torch  # type: ignore[import-not-found,unused-ignore]

    @torch.library.custom_op("reduced::add_by_key", mutates_args=())  # type: ignore[misc,unused-ignore]
    def add_by_key(input: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return add(input, keys, values.detach())

    @add_by_key.register_fake  # type: ignore[misc,unused-ignore]
    def _(input: Any, keys: Any, values: Any) -> Any:
        return input.new_empty(input.shape)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        _, keys, values = inputs
        ctx.shape = values.shape
        ctx.save_for_backward(keys)

    def backward(ctx: Any, given: Any) -> Any:
        keys, = ctx.saved_tensors  # each value's gradient is that of its place
        return given, None, given.reshape(-1)[keys.reshape(-1)].reshape(ctx.shape)

    add_by_key.register_autograd(backward, setup_context=setup)


def register(run: Callable[..., Any], shape_of: Callable[..., Any], add: Callable[..., Any]) -> None:
    """Make the operations, if there is a PyTorch that has such. `run`: computes one; `shape_of`: an empty tensor as its result; `add`:
    adds values to a tensor by the keys of its places.

    Once, with the import of reduced.cuda: what torch.compile traces cannot make one.
    """
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
        torch.library.custom_op
    except (ImportError, AttributeError):
        return

    @torch.library.custom_op("reduced::reduce", mutates_args=())  # type: ignore[misc,unused-ignore]
    def reduce(x: torch.Tensor, op: str, dim: List[int], keepdim: bool, dtype: Optional[torch.dtype], nan: str, correction: int) -> torch.Tensor:
        return run(op, x.detach(), dim, keepdim, dtype, nan, correction)

    @reduce.register_fake  # type: ignore[misc,unused-ignore]
    def _(x: Any, op: str, dim: List[int], keepdim: bool, dtype: Any, nan: str, correction: int) -> Any:
        return shape_of(op, x, dim, keepdim, dtype)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.op, ctx.dim, ctx.keepdim, _, nan, ctx.correction = inputs
        if ctx.op not in GRADIENTS or nan != "propagate":
            raise RuntimeError(f"reduced.cuda has no gradient of {ctx.op}" + ("" if nan == "propagate" else f" with nan={nan!r}"))
        ctx.shape, ctx.dtype = x.shape, x.dtype
        ctx.save_for_backward(*((x, output) if ctx.op in ("var", "std", "norm2") else ()))

    def backward(ctx: Any, given: Any) -> Any:
        x, found = ctx.saved_tensors or (None, None)
        lines, n = _Lines(list(ctx.shape), ctx.dim, ctx.keepdim), 1
        for d in ctx.dim:
            n *= ctx.shape[d]
        return _gradient(ctx.op, x, found, given, lines, n, ctx.correction).to(ctx.dtype), None, None, None, None, None, None

    reduce.register_autograd(backward, setup_context=setup)
    _register_add(add)
