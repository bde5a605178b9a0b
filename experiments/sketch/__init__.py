"""What the Sketch sampler does: accuracy, ablation, speed, growth, memory, and FAISS beside it."""
