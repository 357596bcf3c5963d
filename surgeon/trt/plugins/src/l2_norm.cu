#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

enum class Mapping { kColumns, kImages, kStrips, kTiles };

constexpr int64_t kAny = int64_t(1) << 40;

// What a mapping is taken for. Bytes are those of a plane, a channel of one outer index, and of an image, all channels
// of one.
struct Line
{
    Mapping mapping;
    int plane_multiple; // bytes
    int64_t least_plane, least_channels, most_channels, most_image;
};

// The first line that a tensor meets, and whose mapping has a plan, is taken; by columns whatever meets none.
//                      plane                 channels      image
//                      multiple of, at least at least, most at most
constexpr Line kFloats[] = {
    {Mapping::kColumns, 128,         256,     2,        256,  kAny},
    {Mapping::kColumns, 16,          256,     2,        31,   kAny},
    {Mapping::kImages,  4,           0,       2,        kAny, 55 << 10},
    {Mapping::kStrips,  4,           2048,    2,        40,   kAny},
    {Mapping::kTiles,   4,           256,     32,       4096, kAny},
    {Mapping::kImages,  4,           0,       2,        kAny, 220 << 10},
    {Mapping::kTiles,   4,           32,      32,       4096, kAny},
};
constexpr Line kHalves[] = {
    {Mapping::kColumns, 128,         256,     2,        256,  kAny},
    {Mapping::kImages,  2,           0,       2,        kAny, 55 << 10},
    {Mapping::kStrips,  2,           2048,    2,        52,   kAny},
    {Mapping::kColumns, 16,          256,     2,        48,   kAny},
    {Mapping::kTiles,   2,           256,     32,       4096, kAny},
    {Mapping::kImages,  2,           0,       2,        kAny, 110 << 10},
    {Mapping::kTiles,   2,           192,     32,       4096, kAny},
    {Mapping::kImages,  2,           0,       2,        kAny, 220 << 10},
    {Mapping::kTiles,   2,           32,      32,       4096, kAny},
};
// Tensors that stay in the L2 cache: lines may be cut there.
constexpr Line kFloatsInCache[] = {
    {Mapping::kColumns, 128,         256,     2,        256,  kAny},
    {Mapping::kColumns, 8,           256,     2,        63,   kAny},
    {Mapping::kImages,  4,           0,       2,        kAny, 110 << 10},
    {Mapping::kStrips,  4,           2048,    2,        40,   kAny},
    {Mapping::kTiles,   4,           32,      32,       4096, kAny},
};
constexpr Line kHalvesInCache[] = {
    {Mapping::kColumns, 128,         256,     2,        512,  kAny},
    {Mapping::kColumns, 8,           256,     2,        63,   kAny},
    {Mapping::kColumns, 8,           256,     257,      512,  kAny},
    {Mapping::kImages,  2,           0,       2,        kAny, 110 << 10},
    {Mapping::kStrips,  2,           2048,    2,        40,   kAny},
    {Mapping::kTiles,   2,           32,      32,       4096, kAny},
};

struct Launch
{
    Type type;
    void const* x;
    Scalars weight;
    void* y;
    int64_t outer, channels, inner;
    Norm norm;
    unsigned* tickets;
    cudaStream_t on;

    bool meets(Line const& line) const
    {
        int64_t const plane = inner * size_of(type);
        return plane % line.plane_multiple == 0 && plane >= line.least_plane && channels >= line.least_channels
            && channels <= line.most_channels && channels * plane <= line.most_image;
    }

    // An error where there is no plan; nothing has been launched then.
    cudaError_t by(Mapping mapping) const
    {
        auto const go = [&](auto const& plan, auto const& launch) {
            return launch(plan, type, x, weight, y, outer, channels, inner, norm, tickets, on);
        };
        bool const few = outer < device().multiprocessors; // images
        switch (mapping)
        {
        case Mapping::kColumns: return by_columns();
        case Mapping::kImages:
            return go(few ? kNoImages : plan_images(type, outer, channels, inner), launch_l2norm_images);
        case Mapping::kStrips: return go(plan_strips(type, channels, inner), launch_l2norm_strips);
        case Mapping::kTiles: return go(plan_tiles(type, channels, inner), launch_l2norm_tiles);
        }
        return cudaErrorInvalidValue;
    }

    cudaError_t by_columns() const
    {
        constexpr int kMostThreads = 512; // the registers
        ColumnsPlan const plan = plan_columns(type, outer, channels, inner);
        return launch_l2norm_columns(plan.x * plan.y <= kMostThreads ? plan : kReadTwice, type, x, weight, y, outer,
            channels, inner, norm, on);
    }

    // A driver without tensor copies refuses, or a device of which others have a part: the next line is tried.
    template <int N>
    cudaError_t by(Line const (&table)[N]) const
    {
        for (Line const& line : table)
            if (meets(line))
            {
                if (by(line.mapping) == cudaSuccess)
                    return cudaSuccess;
                cudaGetLastError();
            }
        return by_columns();
    }
};

} // namespace

cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, void* workspace, unsigned* tickets, cudaStream_t on)
{
    if (inner == 1 || channels == 1)
        return l2norm_rows(type, x, weight, y, outer * inner, channels, norm, on);
    if (channels * inner * size_of(type) <= kMostImagePeriodBytes)
        return l2norm_small_images(type, x, weight, y, outer, channels, inner, norm, on);
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    cudaError_t const status = ready_tickets(tickets, stream, workspace, on);
    if (status != cudaSuccess)
        return status;
    Launch const launch{type, x, weight, y, outer, channels, inner, norm, tickets, on};
    if (type == Type::kFloat)
        return stream ? launch.by(kFloats) : launch.by(kFloatsInCache);
    return stream ? launch.by(kHalves) : launch.by(kHalvesInCache);
}

} // namespace surgeon
