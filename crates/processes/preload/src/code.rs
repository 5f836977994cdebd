//! Relocation of `syscall` instructions: which bytes of a function become a jump, and what the jump leads to.
//!
//! A jump takes five bytes, a `syscall` two. Nearly always a `mov eax, NUMBER` of five bytes is before it, and that alone is
//! overwritten: the `syscall` stays where it is. Otherwise neighbours of the `syscall` move along into the trampoline.
//! Nothing may branch into the bytes that are overwritten; where something does, or something is not understood, the
//! place is left alone, and said to be.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, Register,
};

/// Bytes of a jump to anywhere within 2 GiB.
pub(crate) const JUMP_BYTES: usize = 5;
/// Instructions on one side of a `syscall` that may move.
const MAX_NEIGHBOURS: usize = 4;
/// `rt_sigreturn`: debuggers and unwinders know its instructions by their bytes.
const SIGRETURN: u32 = 15;

/// A `syscall` that can be led elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Address of the first byte that is overwritten, and how many are.
    pub start: u64,
    pub length: usize,
    /// Moved before the call.
    before: Vec<Instruction>,
    /// Address of the `syscall` if it stays; what is behind it then stays as well.
    stays: Option<u64>,
    /// Moved behind it.
    after: Vec<Instruction>,
}

/// The reason why a `syscall` is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The function has bytes that are no instructions.
    Unknown,
    /// Something in the function branches into what would be overwritten, or there is no room.
    BranchedInto,
}

/// Finds the `syscall`s of a function, `code` at the address `start`, and what can be done about each. `wanted` says
/// which numbers matter; one that is not known does.
pub(crate) fn sites(
    code: &[u8],
    start: u64,
    wanted: impl Fn(u32) -> bool,
) -> Vec<Result<Site, Refusal>> {
    let instructions: Vec<Instruction> = Decoder::with_ip(64, code, start, DecoderOptions::NONE)
        .into_iter()
        .collect();
    let calls: Vec<usize> = (0..instructions.len())
        .filter(|&index| instructions[index].code() == Code::Syscall)
        .collect();
    if instructions.iter().any(Instruction::is_invalid) {
        return vec![Err(Refusal::Unknown); calls.len().max(1)];
    }
    let targets = targets(&instructions);
    let mut overwritten_to = start;
    let mut found = Vec::new();
    for call in calls {
        let number = number_before(&instructions, call, &targets);
        if number.is_some_and(|number| number == SIGRETURN || !wanted(number)) {
            continue;
        }
        let site = site(&instructions, call, &targets)
            .filter(|site| site.start >= overwritten_to)
            .ok_or(Refusal::BranchedInto);
        if let Ok(site) = &site {
            overwritten_to = site.start + site.length as u64;
        }
        found.push(site);
    }
    found
}

/// Addresses within that something branches to or takes the address of.
fn targets(instructions: &[Instruction]) -> Vec<u64> {
    let mut targets = Vec::new();
    for instruction in instructions {
        match instruction.flow_control() {
            FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::Call
            | FlowControl::XbeginXabortXend => targets.push(instruction.near_branch_target()),
            _ => {}
        }
        if instruction.is_ip_rel_memory_operand() {
            targets.push(instruction.ip_rel_memory_address());
        }
    }
    targets
}

/// The number in `eax` at a `syscall`, if the instructions before it say so in one straight line.
fn number_before(instructions: &[Instruction], call: usize, targets: &[u64]) -> Option<u32> {
    for index in (call.saturating_sub(2 * MAX_NEIGHBOURS)..call).rev() {
        let instruction = &instructions[index];
        if targets.contains(&instructions[index + 1].ip()) {
            return None;
        }
        match instruction.code() {
            Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_rm64_imm32
                if matches!(instruction.op0_register(), Register::EAX | Register::RAX) =>
            {
                return Some(instruction.immediate32());
            }
            _ => {}
        }
        let writes = [Register::RAX, Register::EAX, Register::AX, Register::AL];
        if instruction.flow_control() != FlowControl::Next
            || instruction.op_count() > 0 && writes.contains(&instruction.op0_register())
        {
            return None;
        }
    }
    None
}

fn site(instructions: &[Instruction], call: usize, targets: &[u64]) -> Option<Site> {
    let stays = call.checked_sub(1).map(|index| &instructions[index]);
    if let Some(number) = stays.filter(|before| {
        before.code() == Code::Mov_r32_imm32
            && before.op0_register() == Register::EAX
            && before.len() == JUMP_BYTES
    }) {
        // One whole instruction goes; nothing can branch into it but by an error of ours.
        let inside = number.ip() + 1..number.next_ip();
        return (!targets.iter().any(|target| inside.contains(target))).then(|| Site {
            start: number.ip(),
            length: JUMP_BYTES,
            before: vec![*number],
            stays: Some(instructions[call].ip()),
            after: Vec::new(),
        });
    }
    // The fewest that make room, behind before in front: a branch to what sets up the call is likelier.
    for total in 1..=2 * MAX_NEIGHBOURS {
        for before in 0..=total.min(call).min(MAX_NEIGHBOURS) {
            let (first, last) = (call - before, call + (total - before));
            if total - before > MAX_NEIGHBOURS || last >= instructions.len() {
                continue;
            }
            let window = &instructions[first..=last];
            let (start, end) = (window[0].ip(), instructions[last].next_ip());
            let length = (end - start) as usize;
            let inside = start + 1..end;
            if length >= JUMP_BYTES
                && !targets.iter().any(|target| inside.contains(target))
                && may_move(&window[..before], false)
                && may_move(&window[before + 1..], true)
            {
                return Some(Site {
                    start,
                    length,
                    before: window[..before].to_vec(),
                    stays: None,
                    after: window[before + 1..].to_vec(),
                });
            }
        }
    }
    None
}

/// Whether the instructions do elsewhere what they do here, and each is reached. The last may leave, without a trace of
/// where it was, where `may_leave`.
fn may_move(instructions: &[Instruction], may_leave: bool) -> bool {
    let last = instructions.len().saturating_sub(1);
    instructions
        .iter()
        .enumerate()
        .all(|(index, instruction)| match instruction.flow_control() {
            FlowControl::Next => true,
            FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::Return => may_leave && index == last,
            _ => false,
        })
}

/// The trampoline of a site: its bytes at the address `at`, and where the hook goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trampoline {
    /// To be put at the address it was made for.
    pub bytes: Vec<u8>,
    /// To be put at the site's start.
    pub jump: [u8; JUMP_BYTES],
}

/// Makes the trampoline of a site for the address `at`, with the entry's address in the eight bytes at `entry`. The
/// entry gets in `rcx` where to go on; two bytes before that is a `syscall`.
pub(crate) fn trampoline(site: &Site, at: u64, entry: u64) -> Option<Trampoline> {
    let mut bytes = encode(&site.before, at)?;
    // lea rcx, [rip + ...]
    let lea = bytes.len();
    bytes.extend([0x48, 0x8d, 0x0d, 0, 0, 0, 0]);
    // jmp [rip + ...]
    bytes.extend([0xff, 0x25]);
    let next = at + bytes.len() as u64 + 4;
    bytes.extend(distance(next, entry)?);
    let on = match site.stays {
        Some(call) => call + 2,
        None => {
            bytes.extend([0x0f, 0x05]);
            let on = at + bytes.len() as u64;
            bytes.extend(encode(&site.after, on)?);
            let back = at + bytes.len() as u64;
            bytes.extend(jump(back, site.start + site.length as u64)?);
            on
        }
    };
    let from_lea = distance(at + lea as u64 + 7, on)?;
    bytes[lea + 3..lea + 7].copy_from_slice(&from_lea);
    Some(Trampoline {
        bytes,
        jump: jump(site.start, at)?,
    })
}

fn encode(instructions: &[Instruction], at: u64) -> Option<Vec<u8>> {
    if instructions.is_empty() {
        return Some(Vec::new());
    }
    let block = InstructionBlock::new(instructions, at);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
    encoded.ok().map(|result| result.code_buffer)
}

fn jump(from: u64, to: u64) -> Option<[u8; JUMP_BYTES]> {
    let [a, b, c, d] = distance(from + JUMP_BYTES as u64, to)?;
    Some([0xe9, a, b, c, d])
}

fn distance(from: u64, to: u64) -> Option<[u8; 4]> {
    let distance = i32::try_from(to.wrapping_sub(from) as i64).ok()?;
    Some(distance.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x7000_0000;
    const AT: u64 = 0x7100_0000;
    const ENTRY: u64 = 0x7200_0000;

    fn all(code: &[u8]) -> Vec<Result<Site, Refusal>> {
        sites(code, START, |_| true)
    }

    fn only(code: &[u8]) -> Result<Site, Refusal> {
        let mut found = all(code);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// The instructions of a trampoline, as text would be without a formatter.
    fn decoded(bytes: &[u8]) -> Vec<Instruction> {
        Decoder::with_ip(64, bytes, AT, DecoderOptions::NONE)
            .into_iter()
            .collect()
    }

    #[test]
    fn a_number_before_the_call_is_all_that_goes() {
        // mov eax, 1; syscall; cmp rax, -4096; ja +1; ret; ret
        let code = [
            0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x77, 1, 0xc3, 0xc3,
        ];
        let site = only(&code).unwrap();
        assert_eq!((site.start, site.length), (START, 5));
        let made = trampoline(&site, AT, ENTRY).unwrap();
        assert_eq!(made.jump, [0xe9, 0xfb, 0xff, 0xff, 0x00]);
        let instructions = decoded(&made.bytes);
        assert_eq!(instructions.len(), 3);
        assert_eq!(instructions[0].immediate32(), 1);
        assert_eq!(instructions[1].ip_rel_memory_address(), START + 7);
        assert_eq!(instructions[2].ip_rel_memory_address(), ENTRY);
    }

    #[test]
    fn a_branch_to_the_call_itself_leaves_it_where_it_is() {
        // mov eax, 1; syscall; jmp to the syscall
        let code = [0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xfc];
        assert_eq!(only(&code).unwrap().stays, Some(START + 5));
    }

    #[test]
    fn neighbours_move_and_branches_among_them_lead_where_they_led() {
        // syscall; jae +5; nop; nop; nop; nop; ret...: the branch is made longer.
        let code = [
            0x0f, 0x05, 0x73, 0x05, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3, 0xc3,
        ];
        let site = only(&code).unwrap_err();
        assert_eq!(
            site,
            Refusal::BranchedInto,
            "a branch in the middle does not move"
        );
        // syscall; nop; jae +5: it is the last.
        let code = [
            0x0f, 0x05, 0x90, 0x73, 0x05, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3,
        ];
        let site = only(&code).unwrap();
        assert_eq!((site.start, site.length), (START, 5));
        let made = trampoline(&site, AT, ENTRY).unwrap();
        let instructions = decoded(&made.bytes);
        let branch = instructions
            .iter()
            .find(|one| one.flow_control() == FlowControl::ConditionalBranch);
        assert_eq!(branch.unwrap().near_branch_target(), START + 10);
        let back = instructions.last().unwrap();
        assert_eq!(back.near_branch_target(), START + 5);
        let on = instructions[0].ip_rel_memory_address();
        let call = &made.bytes[(on - 2 - AT) as usize..(on - AT) as usize];
        assert_eq!(call, [0x0f, 0x05]);
    }

    #[test]
    fn what_is_relative_to_its_place_stays_relative_to_it() {
        // syscall; mov edx, [rip + 0x100]; ret
        let code = [0x0f, 0x05, 0x8b, 0x15, 0, 1, 0, 0, 0xc3];
        let site = only(&code).unwrap();
        let made = trampoline(&site, AT, ENTRY).unwrap();
        let moved = decoded(&made.bytes)[3];
        assert_eq!(moved.ip_rel_memory_address(), START + 8 + 0x100);
        // Too far away: nothing is made.
        assert_eq!(trampoline(&site, AT + (8 << 30), ENTRY), None);
    }

    #[test]
    fn what_is_branched_into_is_left_alone() {
        // syscall; nop; nop; nop; jmp to the second nop, and nothing in front of the call.
        let code = [0x0f, 0x05, 0x90, 0x90, 0x90, 0xeb, 0xfc];
        assert_eq!(only(&code).unwrap_err(), Refusal::BranchedInto);
        // The same with a branch to the first byte of what goes, which is fine.
        let code = [0x0f, 0x05, 0x90, 0x90, 0x90, 0xeb, 0xf9];
        assert!(only(&code).is_ok());
        // The address of the second nop is taken: lea rax, [rip - 9]
        let code = [
            0x0f, 0x05, 0x90, 0x90, 0x90, 0x48, 0x8d, 0x05, 0xf7, 0xff, 0xff, 0xff, 0xc3,
        ];
        assert_eq!(only(&code).unwrap_err(), Refusal::BranchedInto);
    }

    #[test]
    fn a_call_that_returns_here_does_not_move() {
        // call +0; syscall; ret: neither side has room.
        let code = [0xe8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3];
        assert_eq!(only(&code).unwrap_err(), Refusal::BranchedInto);
    }

    #[test]
    fn bytes_that_are_no_instructions_are_left_alone() {
        let code = [0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x06, 0x90];
        assert_eq!(only(&code).unwrap_err(), Refusal::Unknown);
    }

    #[test]
    fn numbers_that_do_not_matter_are_passed_over() {
        let code = [
            0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0xc3,
        ];
        let wants = |wanted: u32| sites(&code, START, |number| number == wanted).len();
        assert_eq!(wants(1), 1);
        assert_eq!(wants(2), 0);
        assert_eq!(
            wants(15),
            0,
            "the end of a signal's handler is never touched"
        );
    }

    #[test]
    fn a_number_that_came_another_way_is_not_believed() {
        // mov eax, 1; then something branches between the number and the call: xor edi, edi is a target.
        let code = [0xb8, 1, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 0xeb, 0xfa, 0xc3];
        assert_eq!(sites(&code, START, |_| false).len(), 1);
        let code = [0xb8, 1, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 0xc3, 0x90, 0x90];
        assert_eq!(sites(&code, START, |_| false).len(), 0);
    }
}
