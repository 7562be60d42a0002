// The interpreter with 32 lanes, as a device has it, in one thread: each lane has a stack of its own
// and runs from one meeting to the next, in an order that changes from meeting to meeting.
#include <ucontext.h>

static unsigned lane_now, meetings;
static ucontext_t lanes[32], scheduler;
static unsigned voted[32];
static void meet() { swapcontext(&lanes[lane_now], &scheduler); }
static unsigned any(unsigned x) {
  unsigned found = 0;
  voted[lane_now] = x;
  meet();
  for (unsigned i = 0; i < 32; i++) found |= voted[i];
  meet();
  return found;
}

#define LANES 32u
#define LANE lane_now
#define MEET() meet()
#define ANY(x) any((unsigned)(x))
#include "interpreter.cu"

static const u32 *program;
static const wf_contents *contents;
static u8 *memory, *images_made, *copies_made;
static u64 first_number, number_of_images;
static unsigned ended;
static u8 stacks[32][1 << 16];

static void work() {
  if (program) execute(program, memory);
  else for (u32 part = 0; part < 3; part++) fill_some(contents, first_number, number_of_images, 2 + part, memory, images_made, copies_made, part, 3);
  ended++;
  for (;;) meet();
}

// Returns whether all lanes met equally often.
static int warp() {
  for (unsigned i = 0; i < 32; i++) {
    getcontext(&lanes[i]);
    lanes[i].uc_stack.ss_sp = stacks[i];
    lanes[i].uc_stack.ss_size = sizeof(stacks[i]);
    lanes[i].uc_link = 0;
    makecontext(&lanes[i], work, 0);
  }
  for (ended = 0; !ended; meetings++)
    for (unsigned i = 0; i < 32; i++) {
      lane_now = meetings % 3 == 0 ? i : meetings % 3 == 1 ? 31 - i : i * 13 % 32;
      swapcontext(&scheduler, &lanes[lane_now]);
    }
  return ended == 32;
}

extern "C" int run_warp(const u32 *code, u8 *images, u64 image_bytes, u64 count, u8 *own) {
  int equal = 1;
  program = code;
  memory = own;
  for (u64 i = 0; i < count; i++) {
    __builtin_memcpy(own, images + i * image_bytes, image_bytes);
    equal &= warp();
    __builtin_memcpy(images + i * image_bytes, own, image_bytes);
  }
  return equal;
}

extern "C" int fill_warp(const uint64_t *words, u64 first, u64 count, u8 *images, u8 *others) {
  const wf_contents opened = wf_opened(words);
  alignas(16) static u8 own[1 << 19];
  if (wf_bytes(&opened) > sizeof(own)) return 0;
  program = 0;
  contents = &opened;
  memory = own;
  first_number = first;
  number_of_images = count;
  images_made = images;
  copies_made = others;
  return warp();
}
