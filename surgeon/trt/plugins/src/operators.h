// What each plugin computes, on plain tensors: shapes, checks, workspace, launch. No TensorRT here.
#pragma once

#include <string>

#include <cuda_runtime_api.h>

#include "attributes.h"
#include "types.h"

namespace surgeon
{

enum class Layout : int32_t
{
    kLinear,
    kChannelsLast8, // TensorRT's kHWC8 of a 4-D tensor whose channels are a multiple of 8: [N, H, W, C] in memory
};

struct Tensor
{
    void* data = nullptr;
    Type type = Type::kFloat;
    Layout layout = Layout::kLinear;
    int rank = 0;
    int64_t dims[kMaxRank] = {};

    int64_t elements() const
    {
        int64_t n = 1;
        for (int i = 0; i < rank; ++i)
            n *= dims[i];
        return n;
    }
};

// How far the output's axis exceeds the input's (negative where it is cropped); 0 but for SurgeonReflectPad.
int64_t growth(Kind kind, Attributes const& a, int axis);

// A sentence that says why these inputs cannot be taken, or an empty string. Data pointers are not looked at.
std::string check(Kind kind, Attributes const& a, Tensor const* inputs, int count);

// Whether `kind` reads and writes kChannelsLast8 directly for an input of these extents (-1 for unknown).
bool takes_channels_last(Kind kind, Attributes const& a, int rank, int64_t const* dims);

// Bytes, for any input up to these extents in any type.
size_t workspace_bytes(Kind kind, int rank, int64_t const* dims);

// Bytes of the tickets that run() takes, 0 for none.
size_t tickets_bytes(Kind kind);

// Launches on `stream`; `output` has the extents that growth() gives. Inputs must have passed check(). `tickets` is
// device memory, 0 before the first launch, which one launch at a time uses and leaves at 0; without it the workspace
// has to be set to 0 by each launch, which takes 1 to 2 us.
cudaError_t run(Kind kind, Attributes const& a, Tensor const* inputs, int count, Tensor const& output,
    void* workspace, cudaStream_t stream, unsigned* tickets = nullptr);

} // namespace surgeon
