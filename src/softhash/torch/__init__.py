"""Training with a sampled softmax, in PyTorch."""

from softhash.torch.clip import clip_grad_norm_
from softhash.torch.index import Seen
from softhash.torch.loss import Loss, sampled_softmax_loss
from softhash.torch.module import SampledSoftmaxLoss

__all__ = ["Loss", "SampledSoftmaxLoss", "Seen", "clip_grad_norm_", "sampled_softmax_loss"]
