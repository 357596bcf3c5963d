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

// A round of a block's threads, and each column, costs all that the multiprocessor's blocks issue for it meanwhile, a
// share, its pieces and the exchange as much as they would alone.
double speed_of(SpansPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr int kMostThreads = 1024; // that a multiprocessor has the registers for
    constexpr double kShare = 2128, kCross = 656, kPiece = 187, kExchange[] = {236, 324}, kColumn = 0.22;
    constexpr double kFloats[] = {3.48, 4.71}, kHalves[] = {2.49, 6.26}; // of a warp's round, by words
    constexpr double kBeside = 0.372;                                    // of one that is a piece's but no share's
    constexpr double kMost = 0.975, kOfPieces = 0.093, kBestOfMany = 0.98; // the highest of many guesses is too high
    constexpr int kNear = 16;     // multiprocessors, about: a cluster's blocks lie within so many
    constexpr double kLeft = 1.3; // what places cost that are too few for one more cluster
    if (plan.blocks == 0)
        return 0;
    bool const halves = type != Type::kFloat;
    ImageSpans const g = image_spans(plan, type, channels, inner);
    int const threads = span_workers(g) + kSpansMover;
    int64_t const block = spans_bytes(g, type, plan.blocks) + kReservedOfBlock;
    int const resident = int(std::min<int64_t>(device().shared_bytes / block, kMostThreads / threads));
    int64_t const of_share = ceil_div(g.share * size_of(type) / 4, int64_t(g.turn));
    double const rounds = of_share + kBeside * (g.pieces * span_rounds(plan.words) - of_share);
    double const issued = resident
        * (kColumn * inner + rounds * (threads / 32) * (halves ? kHalves : kFloats)[plan.words - 1]);
    double const exchange = plan.blocks > 1 ? kExchange[halves] * (1 + std::log2(plan.blocks)) : 0;
    double const used = 1 - kLeft * (kNear * resident % plan.blocks) / (kNear * resident);
    ShareFlow const flow{used * double(channels * inner * size_of(type)) / plan.blocks, resident, plan.stages,
        kShare + (crosses(type, inner) ? kCross : 0) + kPiece * g.pieces + exchange + issued};
    return kBestOfMany * speed_of(flow, kMost * (1 - kOfPieces / g.pieces));
}

SpansPlan plan_spans(Type type, int64_t channels, int64_t inner)
{
    if (!kStAsync || channels * inner > kMostBlocksInCluster * device().shared_bytes / size_of(type))
        return SpansPlan{0, 0, 0, 0};
    Fastest<SpansPlan> best;
    int64_t const period = period_words(type, inner);
    for (int blocks = 1; blocks <= kMostBlocksInCluster; ++blocks)
        for (int words = 1; words <= kMostSpanWords; ++words)
            for (int turns = 1; turns * period <= kMostSpanThreads * words; ++turns)
                for (int stages : {1, 2})
                {
                    SpansPlan const plan{blocks, words, turns, stages};
                    if (spans_fit(plan, type, channels, inner))
                        best.consider(plan, speed_of(plan, type, channels, inner));
                }
    return best.plan;
}

namespace
{

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
