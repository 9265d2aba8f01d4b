"""Developer tool: a reference for `glmtune verify` (docs/verify.md), made with transformers.

    glmtune init examples/tiny/config.json /tmp/tiny --seed 1
    python tools/make_reference.py /tmp/tiny /tmp/reference.safetensors
    glmtune verify --model /tmp/tiny --reference /tmp/reference.safetensors --latent-norm-eps 1e-6

Writes input_ids and labels [B, S], loss [1], and, as rows one document after the other, logits [T, V] and the
hidden states hidden.N [T, C]; with --gradients also grad.<parameter>. Tokens are random unless --ids names a file of
token ids, a document a line, all of one length. The first eighth of each document has no labels.
"""

import argparse

import torch
from safetensors.torch import save_file
from transformers import GlmMoeDsaForCausalLM


def token_ids(args, vocab):
    if not args.ids:
        random = torch.Generator().manual_seed(args.seed)
        return torch.randint(vocab, (args.documents, args.tokens), generator=random)
    with open(args.ids) as f:
        return torch.tensor([[int(word) for word in line.split()] for line in f if line.strip()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="checkpoint folder")
    parser.add_argument("out", help="safetensors file to write")
    parser.add_argument("--ids", help="text file of token ids")
    parser.add_argument("--documents", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gradients", action="store_true", help="as large as the model")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    model = GlmMoeDsaForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype),
                                                 attn_implementation="eager").to(args.device)
    ids = token_ids(args, model.config.vocab_size).to(args.device)
    labels = ids.clone()
    labels[:, :max(1, ids.shape[1] // 8)] = -100
    with torch.set_grad_enabled(args.gradients):
        out = model(input_ids=ids, use_cache=False, output_hidden_states=True)
        loss = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(),
                                                 ignore_index=-100)
    tensors = {"input_ids": ids, "labels": labels, "loss": loss.detach().reshape(1),
               "logits": out.logits.detach().flatten(0, 1)}
    for n, hidden in enumerate(out.hidden_states):
        tensors[f"hidden.{n}"] = hidden.detach().flatten(0, 1)
    if args.gradients:
        loss.backward()
        tensors.update({f"grad.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None})
    save_file({name: t.contiguous().cpu() for name, t in tensors.items()}, args.out)
    print(f"{args.out}: {len(tensors)} tensors, {ids.numel()} tokens, loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
