"""Training with a sampled softmax, in PyTorch."""

from softhash.torch.loss import Loss, sampled_softmax_loss
from softhash.torch.module import SampledSoftmaxLoss

__all__ = ["Loss", "SampledSoftmaxLoss", "sampled_softmax_loss"]
