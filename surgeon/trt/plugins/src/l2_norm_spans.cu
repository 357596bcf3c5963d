#include "launch.h"

#include <algorithm>
#include <cmath>

namespace surgeon
{

namespace
{

bool crosses(Type type, int64_t inner) { return type != Type::kFloat && inner % 2 != 0; }

// Words of the fewest rows that fill them.
int64_t period_words(Type type, int64_t inner)
{
    return inner * (crosses(type, inner) ? 2 : 1) * size_of(type) / 4;
}

int span_workers(ImageSpans const& g) { return ceil_div(g.width, 32) * 32; }

ImageSpans image_spans(SpansPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int const size = int(size_of(type)), line = kLineBytes / size;
    ImageSpans g{};
    g.channels = int(channels);
    g.inner = int(inner);
    g.share = int(ceil_div(ceil_div(channels * inner, int64_t(plan.blocks)), int64_t(line))) * line;
    g.rows = plan.turns * (crosses(type, inner) ? 2 : 1);
    g.turn = int(plan.turns * period_words(type, inner));
    g.width = ceil_div(g.turn, plan.words);
    g.pieces = ceil_div((g.share + line) * size / 4, span_rounds(plan.words) * g.turn);
    g.stages = plan.stages;
    g.owned = int(ceil_div(inner, int64_t(plan.blocks)));
    g.over_inner = FastDiv<uint32_t>(uint32_t(inner));
    g.over_owned = FastDiv<uint32_t>(uint32_t(g.owned));
    g.lanes = 1;
    while (g.lanes < 32 && 2 * g.lanes * inner <= span_workers(g) && 2 * g.lanes <= g.rows)
        g.lanes *= 2;
    return g;
}

int64_t spans_bytes(ImageSpans const& g, Type type, int blocks)
{
    int const size = int(size_of(type));
    SpansMemory const memory(g, size, blocks);
    return int64_t(g.stages) * memory.room * size + memory.end * int64_t(sizeof(float));
}

} // namespace

bool spans_fit(SpansPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const size = size_of(type), elements = channels * inner, line = kLineBytes / size;
    if (!kStAsync || !device().clusters || plan.blocks < 1 || plan.words < 1 || plan.words > kMostSpanWords
        || plan.turns < 1 || plan.stages < 1 || plan.stages > kMostSpanStages || inner < 2
        || plan.turns * inner > kMostSpanThreads * int64_t(2 * kMostSpanWords)
        || elements * size > plan.blocks * device().shared_bytes)
        return false;
    ImageSpans const g = image_spans(plan, type, channels, inner);
    return g.width >= 32 && span_workers(g) + kSpansMover <= kMostSpanThreads
        && g.pieces * g.stages <= kMostSpanPieces && (plan.blocks - 1) * int64_t(g.share) + line <= elements
        && (plan.words - 1) * g.width < g.turn && spans_bytes(g, type, plan.blocks) <= most_shared_of_block();
}

// A round of a block's threads, and each column, costs all that the multiprocessor's blocks issue for it meanwhile, and
// more the words of a piece that may end with the share, since each has a test of its own; a share's pieces, its warps
// and the exchange cost as much as they would alone. Weights cost a share some time, more where a word may have two of
// them, and all of it where planes are short. Places that are too few for one more cluster hold nothing. Fitted to
// 16,000 timings of 350 shapes, fp32 and fp16, with weights and without.
double speed_of(SpansPlan const& plan, Type type, int64_t channels, int64_t inner, bool weighted)
{
    constexpr int kMostThreads = 1024; // that a multiprocessor has the registers for
    constexpr double kPiece = 328, kExchange[] = {239, 270}, kColumn = 0.188, kWarp = 39.7;
    // Of a share with weights, and of one whose words may have two of them; of memory, by columns.
    constexpr double kWeights = 322, kTwoWeights = 474, kOfWeights = 0.12;
    // Of a warp's round, by words, without weights and with them; of a word that is tested.
    constexpr double kFloats[][2] = {{2.62, 3.41}, {2.62, 3.86}}, kHalves[][2] = {{1.76, 4.17}, {2.05, 5.1}},
                     kCrossing[] = {1.67, 1.96}, kTested[] = {5.68, 6.31};
    constexpr double kMost = 0.965, kBestOfMany = 0.99; // the highest of many guesses is too high
    constexpr int kNear = 16; // multiprocessors, about: a cluster's blocks lie within so many
    if (plan.blocks == 0)
        return 0;
    bool const halves = type != Type::kFloat, cross = crosses(type, inner);
    ImageSpans const g = image_spans(plan, type, channels, inner);
    int const threads = span_workers(g) + kSpansMover, warps = threads / 32;
    int64_t const block = spans_bytes(g, type, plan.blocks) + kReservedOfBlock;
    int const resident = int(std::min<int64_t>(device().shared_bytes / block, kMostThreads / threads));
    int64_t const words = g.share * size_of(type) / 4, of_share = ceil_div(words, int64_t(g.turn)),
                  half_line = kLineBytes / 8, // in words: where a share begins, on average
                  whole = (words + half_line) / (span_rounds(plan.words) * g.turn);
    double const round = cross && plan.words == 1 ? kCrossing[weighted]
                                                  : (halves ? kHalves : kFloats)[weighted][plan.words - 1],
                 of_warp = of_share * round + (g.pieces - whole) * kSpanWords * kTested[halves],
                 issued = resident * (kColumn * inner + warps * of_warp),
                 exchange = plan.blocks > 1 ? kExchange[halves] * (1 + std::log2(plan.blocks)) : 0,
                 weights = !weighted ? 0 : cross ? kWeights + kTwoWeights : kWeights,
                 used = 1 - double(kNear * resident % plan.blocks) / (kNear * resident);
    ShareFlow const flow{used * double(channels * inner * size_of(type)) / plan.blocks, resident, plan.stages,
        weights + kPiece * g.pieces + kWarp * warps + exchange + issued};
    return kBestOfMany * speed_of(flow, kMost * (weighted ? 1 - kOfWeights / inner : 1));
}

namespace
{

Ranking<SpansPlan> ranked(Type type, int64_t channels, int64_t inner, bool weighted)
{
    Ranking<SpansPlan> plans;
    if (!kStAsync || channels * inner > kMostBlocksInCluster * device().shared_bytes / size_of(type))
        return plans;
    int64_t const period = period_words(type, inner);
    for (int blocks = 1; blocks <= kMostBlocksInCluster; ++blocks)
        for (int words = 1; words <= kMostSpanWords; ++words)
            for (int turns = 1; turns * period <= kMostSpanThreads * words; ++turns)
                for (int stages : {1, 2})
                {
                    SpansPlan const plan{blocks, words, turns, stages};
                    if (spans_fit(plan, type, channels, inner))
                        plans.consider(plan, speed_of(plan, type, channels, inner, weighted));
                }
    return plans;
}

template <int WORDS, bool CROSS, class T>
cudaError_t launch_spans(SpansPlan const& plan, T const* x, Scalars weight, T* y, ImageSpans const& g, size_t shared,
    Norm norm, unsigned* tickets, cudaStream_t on)
{
    if constexpr (WORDS < kMostSpanWords)
        if (plan.words > WORDS)
            return launch_spans<WORDS + 1, CROSS>(plan, x, weight, y, g, shared, norm, tickets, on);
    return launch_resident(l2norm_spans_kernel<T, WORDS, CROSS>, plan.blocks, span_workers(g) + kSpansMover, shared,
        g.images, on, x, weight, y, g, norm, tickets);
}

} // namespace

Ranking<SpansPlan> const& rank_spans(Type type, int64_t channels, int64_t inner, bool weighted)
{
    return planned_once<ranked>(type, channels, inner, weighted);
}

cudaError_t launch_l2norm_spans(SpansPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    if (!spans_fit(plan, type, channels, inner) || outer > kMostBlocks)
        return cudaErrorInvalidValue;
    ImageSpans g = image_spans(plan, type, channels, inner);
    g.elements = outer * channels * inner;
    g.images = unsigned(outer);
    size_t const shared = spans_bytes(g, type, plan.blocks);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if constexpr (sizeof(T) < 4)
            if (crosses(type, inner))
                return launch_spans<1, true>(plan, in, weight, out, g, shared, norm, tickets, on);
        return launch_spans<1, false>(plan, in, weight, out, g, shared, norm, tickets, on);
    });
}

} // namespace surgeon
